"""A copy of what stands for itself in a state file, taken while its agent runs, and a new state file made of one.

What an agent has read and said is no part of it: of two that began from one account each would speak for the other, and
an account that is put back does not know what was counted since. So, as after damage (`elf.agents.store.quarantine`),
what is made of a copy is a new agent, which keeps the results, the past and the jobs, and reads its lines again without
what was counted.
"""

from __future__ import annotations

import contextlib
import pathlib
import random
import shutil
import sqlite3

from elf.agents.store.checksums import DamagedError, is_whole
from elf.agents.store.database import connect
from elf.agents.store.schema import KEY, StoreError, bring_up_to_date, put, put_identity
from elf.agents.store.tables import SCHEMA_VERSION, TABLES
from elf.overlay.contract import Record
from elf.overlay.keys import new_identity

#: What stands for itself: jobs as they were published, and what was made of them.
_TAKEN = tuple(table for table in TABLES if table.name in ("masters", "records", "history"))


def copy_state(state: pathlib.Path, to: pathlib.Path) -> str:
    """Copy what stands for itself, as it is at one moment; neither keys nor other agents' data are in the copy.

    Args:
        state: the state file; an agent may have it open.
        to: the copy, which is not there yet.

    Returns:
        The id of the agent whose file it is.

    Raises:
        StoreError: the file is not there, is damaged, or another release's.
        OSError, sqlite3.Error: it cannot be read, or the copy cannot be written.
    """
    if not state.is_file():
        raise StoreError(f"{state} is not there; name the settings, or the data folder, of an agent that has run")
    with contextlib.closing(sqlite3.connect(f"{state.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as source:
        source.execute("BEGIN")
        version = int(source.execute("PRAGMA user_version").fetchone()[0])
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{state}: written by another release (state version {version}, this one has {SCHEMA_VERSION}); "
                "let the release that the agent runs on make the backup"
            )
        agent_id = str(source.execute("SELECT value FROM meta WHERE key = 'agent_id'").fetchone()[0])
        with contextlib.closing(connect(to)) as copy:
            bring_up_to_date(copy, to, random.SystemRandom())
            copy.execute("BEGIN IMMEDIATE")
            for table in _TAKEN:
                rows = source.execute(table.forward)
                while some := rows.fetchmany(256):
                    if not all(map(is_whole, some)):
                        raise StoreError(f"{state}: a row of its table {table.name} is damaged, so no backup is made")
                    copy.executemany(table.insert, some)
            # It is nobody's yet.
            copy.execute("DELETE FROM meta WHERE key IN ('agent_id', ?)", (KEY,))
            copy.execute("COMMIT")
            copy.execute("VACUUM")
    return agent_id


def restore_state(copy: pathlib.Path, state: pathlib.Path, now_ms: int, rng: random.Random | None = None) -> str:
    """Make the state file of a new agent from a copy.

    Args:
        copy: what `copy_state` wrote, by this release or an earlier one.
        state: the file to make, in a folder where none is yet.
        now_ms: the time of day, ms: commits may have been lost up to now, and windows up to now say so.
        rng: draws the identity; a `random.SystemRandom` unless told otherwise.

    Returns:
        The id of the new agent.

    Raises:
        StoreError: the copy is damaged, or a later release's.
        OSError, sqlite3.Error: it cannot be read, or the file cannot be written.
    """
    draws = rng if rng is not None else random.SystemRandom()
    shutil.copyfile(copy, state)
    with contextlib.closing(connect(state)) as sql:
        try:
            bring_up_to_date(sql, state, draws)
            if not all(is_whole(row) for table in _TAKEN for row in sql.execute(table.forward)):
                raise DamagedError("a row is not as it was written")
        except (DamagedError, sqlite3.DatabaseError) as error:
            raise StoreError(f"the state in the backup is damaged ({error}); take another backup") from None
        agent_id, secret = new_identity(draws)
        sql.execute("BEGIN IMMEDIATE")
        put_identity(sql, agent_id, secret)
        if sql.execute("SELECT 1 FROM masters").fetchone():
            put(sql, "uncertain_before_ms", str(now_ms))
        sql.execute("COMMIT")
    return agent_id


def records_in(copy: pathlib.Path) -> list[Record]:
    """Return all records in a copy, of jobs and of others, in one order."""
    with contextlib.closing(connect(copy)) as sql:
        return [Record(*row) for row in sql.execute("SELECT key, version, body FROM records ORDER BY app, key")]


def masters_in(copy: pathlib.Path) -> list[bytes]:
    """Return the records of the jobs in a copy whose results are in it."""
    with contextlib.closing(connect(copy)) as sql:
        return [bytes(job) for (job,) in sql.execute("SELECT job FROM masters ORDER BY app")]
