"""Formats whose lines are pairs of names and values."""
