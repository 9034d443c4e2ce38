"""A damaged state file set aside, and its successor made of what is good in it.

What an agent has read and said itself cannot be taken over in part: a lost snapshot or an older read position would
make lines count twice or never. So the successor names a new agent, which begins like one that lost its disk. What it
is master of, and the records it knows, stand for themselves, row by row.

In order, so that a crash at any point leaves the damaged file or its successor in place: the successor is made under
another name, the damaged file gets its own, then the successor moves in.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from elf.agents.store.checksums import is_whole
from elf.agents.store.tables import TABLES, Table

#: Damaged files kept beside the good one; the oldest goes when there is one more.
KEPT_MAX = 3
#: A write-ahead log and its index belong to the file whose name they begin with.
_PARTS = ("-wal", "-shm", "")
#: What says that the machine, not the file, stands in the way.
_PASSING = frozenset({
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PROTOCOL,
})  # fmt: skip


def is_damage(error: Exception, path: pathlib.Path) -> bool:
    """Tell whether an error while a file is opened or read is the fault of its bytes."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code == sqlite3.SQLITE_READONLY:
        # One byte of the header says so, too.
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return code not in _PASSING


def read_text(data: bytes) -> str:
    """Read a text column, damaged or not; its row's checksum tells which."""
    return data.decode("utf-8", "surrogateescape")


def finish(path: pathlib.Path) -> None:
    """Let a successor move in where a crash came between its last two steps."""
    successor = _successor(path)
    if not path.exists() and successor.exists():
        successor.rename(path)
        _sync_folder(path.parent)


def succeed(path: pathlib.Path, create: Callable[[pathlib.Path], sqlite3.Connection]) -> pathlib.Path:
    """Set a damaged file aside and put a successor in its place; return where the damaged one is.

    Args:
        path: the damaged file.
        create: makes a new, empty state file; the caller of `succeed` must be the only user of both.

    Raises:
        sqlite3.Error, OSError: the disk refuses; the damaged file is still in place.
    """
    successor = _successor(path)
    for part in _PARTS:
        successor.with_name(successor.name + part).unlink(missing_ok=True)
    try:
        with contextlib.closing(create(successor)) as fresh:
            fresh.execute("BEGIN IMMEDIATE")
            for table in TABLES:
                if table.insert:
                    fresh.executemany(table.insert, good_rows(path, table))
            fresh.execute("DELETE FROM history WHERE app NOT IN (SELECT app FROM masters)")
            fresh.execute("COMMIT")
    except BaseException:
        successor.unlink(missing_ok=True)
        raise
    aside = name_aside(path)
    for part in _PARTS:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + part).rename(aside.with_name(aside.name + part))
    _sync_folder(path.parent)
    successor.rename(path)
    _sync_folder(path.parent)
    return aside


def good_rows(path: pathlib.Path, table: Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a damaged file's table that are as they were written; some may come twice."""
    for query in (table.forward, table.backward):
        try:
            # Reading only: what the write-ahead log holds stays in it.
            source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        except sqlite3.Error:
            return
        whole = False
        source.text_factory = read_text
        with contextlib.suppress(sqlite3.Error), contextlib.closing(source):
            yield from filter(is_whole, source.execute(query))
            whole = True
        if whole:
            return


def _successor(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(path.name + ".new")


def name_aside(path: pathlib.Path) -> pathlib.Path:
    """Return a name for one more damaged file, to be renamed to; the oldest of too many goes."""
    prefix = f"{path.name}.damaged-"
    numbers = sorted(
        int(found.name.removeprefix(prefix))
        for found in path.parent.glob(f"{prefix}*")
        if found.name.removeprefix(prefix).isdecimal()
    )
    for number in numbers[: max(0, len(numbers) + 1 - KEPT_MAX)]:
        for part in _PARTS:
            path.with_name(f"{prefix}{number}{part}").unlink(missing_ok=True)
    return path.with_name(f"{prefix}{numbers[-1] + 1 if numbers else 1}")


def _sync_folder(folder: pathlib.Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
