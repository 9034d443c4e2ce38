"""A job's master: commits in, results out, and what followers are told (paper: section 3.1, "Job master")."""
