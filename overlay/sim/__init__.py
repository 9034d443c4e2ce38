"""Virtual time and an in-memory network, on which the real agents run many to a process and always the same way."""
