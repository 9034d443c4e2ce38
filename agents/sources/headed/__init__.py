"""Formats whose columns are named by header lines."""
