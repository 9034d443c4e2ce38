"""Replicas of snapshots and checkpoints at neighbours, and going on from them (paper: section 2.3, hot replication)."""
