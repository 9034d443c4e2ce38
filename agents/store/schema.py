"""Making the tables of a state file, and bringing those of earlier releases up to date."""

from __future__ import annotations

import pathlib
import random
import sqlite3

from elf.agents.errors import ConfigError
from elf.agents.store.checksums import DamagedError, is_whole, row_checksum
from elf.agents.store.tables import CHECKED_VERSION, SCHEMA_VERSION, STEPS
from elf.overlay.keys import new_identity

#: Under what the agent's key is in the file.
KEY = "agent_key"


class StoreError(ConfigError):
    """The durable state cannot be opened; the text says which file and what to do."""


def put(sql: sqlite3.Connection, key: str, value: str) -> None:
    """Keep a value under a name, in a transaction."""
    sql.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (key, value, row_checksum(key, value)))


def put_identity(sql: sqlite3.Connection, agent_id: str, secret: bytes) -> None:
    """Keep who an agent is, in a transaction."""
    put(sql, "agent_id", agent_id)
    put(sql, KEY, secret.hex())


def bring_up_to_date(sql: sqlite3.Connection, path: pathlib.Path, rng: random.Random) -> None:
    """Make the tables of a new file, or bring an older file's up to date.

    Raises:
        StoreError: a newer release wrote it.
        DamagedError: it does not say which release wrote it.
    """
    version = int(sql.execute("PRAGMA user_version").fetchone()[0])
    tables = {name for (name,) in sql.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    named = _named_version(sql) if "meta" in tables else None
    unnamed = version if version < CHECKED_VERSION else None
    if version != (unnamed if named is None else named) or bool(version) != bool(tables):
        raise DamagedError(f"its header says version {version}, which is not what it holds")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path}: written by another release (state version {version}, this one has {SCHEMA_VERSION}); "
            "run the release that wrote it, or move the file away to start without its state"
        )
    if version == SCHEMA_VERSION:
        return
    sql.execute("BEGIN IMMEDIATE")
    try:
        for step in STEPS[version:]:
            for statement in step.split(";"):
                sql.execute(statement)
        if version == 0:
            put_identity(sql, *new_identity(rng))
        if version < CHECKED_VERSION:
            put(sql, "transactions", "0")
        # The header's number has no checksum; this one has.
        put(sql, "version", str(SCHEMA_VERSION))
        sql.execute(f"PRAGMA user_version = {SCHEMA_VERSION:d}")
        sql.execute("COMMIT")
    except BaseException:
        if sql.in_transaction:
            sql.execute("ROLLBACK")
        raise


def _named_version(sql: sqlite3.Connection) -> int | None:
    """Return the version that a row of the file names; None for one without, of the first releases."""
    row = sql.execute("SELECT * FROM meta WHERE key = 'version'").fetchone()
    return int(row[1]) if row is not None and is_whole(row) else None
