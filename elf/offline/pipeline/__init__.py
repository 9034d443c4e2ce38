"""`elf pipeline`: a job's windows as a Parquet table that follows the agents' archives (docs/OFFLINE.md, Pipeline)."""
