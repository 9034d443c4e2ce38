"""Durable state of one agent: a single SQLite file in WAL mode, written in synced transactions.

`database` owns the file, its version and its lock; `checkpoints` what the worker side must not lose (DESIGN 3.4);
`panes` what a master must not lose; `records` the control records an agent brings back to its trees; `controls` how far
it has handled their control logs.
"""
