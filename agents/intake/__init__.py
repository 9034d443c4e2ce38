"""From a source to workers: the loop around it, the pump that reads and checkpoints, pushed events, poison."""
