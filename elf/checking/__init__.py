"""What the command line checks before anything runs: the texts of files, and what they name on this machine."""
