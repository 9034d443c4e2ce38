"""Masters of jobs: commits in, results out, and what followers are told (paper: §3.1, "Job master"; DESIGN 3.6)."""
