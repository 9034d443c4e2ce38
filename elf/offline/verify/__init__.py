"""`elf verify`: published windows beside what Spark computes from the archive (DESIGN section 9)."""
