"""One node's place in one application's tree: the machine, its choices, its edges, its search for a parent."""
