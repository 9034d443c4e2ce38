"""The agent's Parquet copy of the events it parsed, and how it lies on disk (DESIGN section 3.7)."""
