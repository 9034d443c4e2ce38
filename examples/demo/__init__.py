"""A small shop to try elf on: its catalogue and its click stream."""
