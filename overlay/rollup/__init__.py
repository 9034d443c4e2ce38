"""One node's part in one job's roll-up: claims, the barrier of inner nodes, the ledger of the root, verdicts."""
