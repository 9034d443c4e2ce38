"""The root group of one job: the few agents that hold its master's log, of which one at a time is the root."""
