"""What agents ask and answer each other: one module a conversation, every message validated as it is decoded."""
