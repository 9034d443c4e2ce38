"""Functions that the operator of an agent has installed: how they are declared, found, loaded and called."""
