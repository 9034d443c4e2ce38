"""The pages of docs/ that follow from the code: `python -m tests.pages` writes them, and a test holds them to it."""
