"""The `elf` command line (DESIGN section 1: install, publish, query)."""
