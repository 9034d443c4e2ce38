"""The offline half: the same job definitions on Spark, over the archive (DESIGN section 9)."""
