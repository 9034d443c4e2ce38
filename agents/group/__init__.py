"""A job's root group at one agent: its copy of the master, what the group decides, and what follows when it elects."""
