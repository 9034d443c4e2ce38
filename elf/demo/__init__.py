"""A small shop to try elf on: its catalogue, its click stream, and agents as processes that end with whoever began."""
