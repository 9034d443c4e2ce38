"""What is wrong with an agent: looked at from outside, asked of itself, and each with the command that mends it."""
