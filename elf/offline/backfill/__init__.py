"""`elf backfill`: intervals of before a job was published, from the archives (docs/OFFLINE.md, Backfill)."""
