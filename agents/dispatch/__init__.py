"""What this agent answers when another one asks: who here knows the answer, and what it is."""
