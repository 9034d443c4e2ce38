"""The house measured: what imports what, how long files are, and which layers are crossed."""
