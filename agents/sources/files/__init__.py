"""Files of logs: which belong together, what they hold, and how far each was read."""
