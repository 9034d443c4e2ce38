"""What outlives a lost disk: an agent's results and jobs in one file, and an agent's folder made of it again."""
