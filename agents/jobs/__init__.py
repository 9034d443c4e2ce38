"""Jobs: their definitions, the SQL subset they are written in, and the plans that run them (DESIGN section 4)."""
