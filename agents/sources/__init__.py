"""Sources: from bytes in files to frames of events, with every line accounted for (DESIGN section 3, steps 1 and 2)."""
