"""Changing a running job: what is asked for, what its master decides, and since when it counts (DESIGN section 7)."""
