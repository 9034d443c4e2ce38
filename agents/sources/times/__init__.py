"""Times as logs write them: notations, which exclude each other by their shape, and zones (LINES section 5)."""
