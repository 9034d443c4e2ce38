"""Virtual time and an in-memory network, on which nodes run many to a process and always the same way."""
