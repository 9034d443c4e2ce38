"""Answers about a job: its masters located, their shares gathered, put together, rendered and followed."""
