"""The SQL subset that jobs are written in: texts to checked, typed expressions (DESIGN section 4)."""
