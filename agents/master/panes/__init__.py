"""A job's past at its master: panes, their labels, and what long windows are made of; frames lie on disk."""
