"""Durable state of one agent: a single SQLite file in WAL mode, written in synced transactions.

`database` owns the file and its lock, `tables` what is in it by version, `checksums` what tells a damaged row, `mark`
what tells a file that fell back, `quarantine` what becomes of a damaged file; `checkpoints` what the worker side must
not lose (DESIGN 3.4); `panes` what a master must not lose; `records` the control records an agent brings back to its
trees; `controls` how far it has handled their control logs.
"""
