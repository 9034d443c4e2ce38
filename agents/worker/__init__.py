"""One job at one agent: from a frame of events to sealed snapshots (paper: section 3.1, "Job worker")."""
