"""What a master must not lose: its job, its panes and the state of its commits."""

from __future__ import annotations

import enum
import functools
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence

from elf.agents.store.checksums import DamagedError, is_whole, row_checksum, verified
from elf.agents.store.database import Database
from elf.agents.store.shared_transactions import Steps, Write, carry_out

_PUT_MASTER = "INSERT OR REPLACE INTO masters VALUES (?1, ?2, ?3, row_checksum(?1, ?2, ?3))"
#: Of a row that is as it was written.
_PUT_STATE = """UPDATE masters SET state = ?2, checksum = row_checksum(app, job, ?2)
                WHERE app = ?1 AND checksum = row_checksum(app, job, state)"""
_PUT_BLOCK = "INSERT OR REPLACE INTO history VALUES (?, ?, ?, ?, ?)"
_DROP_BLOCK = "DELETE FROM history WHERE app = ? AND kind = ? AND interval = ?"
_WHAT = "what a job's master knows"


class ClosedError(Exception):
    """Nobody reads here any more."""


class Kind(enum.IntEnum):
    """What a block of a job's past is; with the interval, the name of the block."""

    LABEL = 0
    PANE = 1
    TOTAL = 2
    #: A pane with its label, as they were kept before schema version 3.
    LABELLED_PANE = 3
    #: All rows of a run of intervals, and the mark of a run whose rows are better left where they are.
    MERGED = 4
    NOT_MERGED = 5
    #: Keys that such rows are placed in the order of, so that they need not have them.
    ORDER = 6
    #: The result that all later ones of a job follow from which reads its last one (`elf.agents.master.chain`).
    LAST = 7

    @property
    def word(self) -> str:
        """What its blocks are called where they are damaged."""
        return self.name.lower()


Place = tuple[Kind, int]
#: What is made of panes.
MADE = (Kind.TOTAL, Kind.MERGED, Kind.NOT_MERGED, Kind.ORDER)


class Panes:
    """Reads and writes masters in a database; `job`, `state` and blocks are opaque bytes of the master's."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def uncertain_before_ms(self) -> int | None:
        """Up to when commits may be lost; see `Database`."""
        return self._database.uncertain_before_ms

    def settle_doubts(self) -> None:
        """Forget `uncertain_before_ms`: every master has noted it."""
        self._database.settle_doubts()

    def create(self, app: bytes, job: bytes, state: bytes) -> None:
        """Start a master without a past; an earlier one of the same job is replaced."""
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM history WHERE app = ?", (app,))
            sql.execute(_PUT_MASTER, (app, job, state))

    def rename(self, app: bytes, job: bytes) -> None:
        """Replace what is kept of the job itself."""
        with self._database.transaction() as sql:
            _, state = self._master(sql, app)
            sql.execute(_PUT_MASTER, (app, job, state))

    def commit(self, app: bytes, state: bytes, changed: Mapping[Place, bytes], gone: Iterable[Place]) -> None:
        """Write a commit: the new state, the blocks it changed, those no longer retained."""
        with self._database.transaction() as sql:
            self._commit(app, state, changed, gone, sql)

    def committing(self, app: bytes, state: bytes, changed: Mapping[Place, bytes], gone: Sequence[Place]) -> Write:
        """Return what writes a commit as `commit` does, in whatever transaction it is called."""
        return functools.partial(self._commit, app, state, changed, gone)

    def carry_out(self, works: Sequence[Steps]) -> list[BaseException | None]:
        """Do some work durably; see `elf.agents.store.shared_transactions`."""
        return carry_out(self._database, works)

    def finish(self, work: Steps) -> None:
        """Do a single piece of work durably; raises what it raises."""
        (error,) = self.carry_out([work])
        if error is not None:
            raise error

    def replace(self, app: bytes, changed: Mapping[Place, bytes], gone: Iterable[Place]) -> None:
        """Write blocks in the place of others."""
        with self._database.transaction() as sql:
            self._write(sql, app, changed, gone)

    def masters(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return (app, job, state) of every master."""
        with self._database.transaction() as sql:
            rows = sql.execute("SELECT * FROM masters ORDER BY app").fetchall()
        return [(app, job, state) for app, job, state in (verified(row, _WHAT) for row in rows)]

    def intervals(self, app: bytes, kind: Kind) -> list[int]:
        """Return the intervals of a master's blocks of a kind, ascending."""
        with self._database.transaction() as sql:
            query = "SELECT interval FROM history WHERE app = ? AND kind = ? ORDER BY interval"
            return [interval for (interval,) in sql.execute(query, (app, kind)).fetchall()]

    def blocks(self, app: bytes, kind: Kind) -> dict[int, bytes]:
        """Return a master's blocks of a kind by interval, ascending; damaged ones are left out."""
        with self._database.transaction() as sql:
            query = "SELECT * FROM history WHERE app = ? AND kind = ? ORDER BY interval"
            rows = sql.execute(query, (app, kind)).fetchall()
        return {row[2]: row[3] for row in rows if is_whole(row)}

    def block(self, app: bytes, kind: Kind, interval: int) -> bytes:
        """Return one block.

        Raises:
            DamagedError: it is not there, or not as it was written; the caller says what becomes of that.
        """
        with self._database.transaction() as sql:
            query = "SELECT * FROM history WHERE app = ? AND kind = ? AND interval = ?"
            row = sql.execute(query, (app, kind, interval)).fetchone()
        if row is None or not is_whole(row):
            self.note(kind, interval)
            raise DamagedError(f"the {kind.word} of interval {interval} is damaged")
        return bytes(row[3])

    def note(self, kind: Kind, interval: int) -> None:
        """Count a damaged block and say what it means."""
        what = kind.word
        meaning = "it is made anew" if kind in MADE else "windows over it say that something is missing"
        where = self._database.path
        self._database.damages.note(what, f"{where}: the {what} of interval {interval} is damaged: {meaning}")

    def adopt(self, app: bytes, job: bytes, state: bytes) -> None:
        """Make a master of blocks that were fetched from elsewhere."""
        with self._database.transaction() as sql:
            sql.execute(_PUT_MASTER, (app, job, state))

    def sweep(self) -> None:
        """Drop blocks without a master: of copies that were not fetched to their end."""
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM history WHERE app NOT IN (SELECT app FROM masters)")

    def reader(self, app: bytes) -> PaneReader:
        """Read all of a master as it is now, whatever is written meanwhile; raises DamagedError as `masters` does."""
        return PaneReader(self._database.reader(), app)

    def forget(self, app: bytes) -> None:
        """Drop a stopped job's master."""
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM masters WHERE app = ?", (app,))
            sql.execute("DELETE FROM history WHERE app = ?", (app,))

    def _master(self, sql: sqlite3.Connection, app: bytes) -> tuple[bytes, bytes]:
        """Return a master's job and state."""
        row = sql.execute("SELECT * FROM masters WHERE app = ?", (app,)).fetchone()
        if row is None:
            raise DamagedError("there is no such master any more")
        _, job, state = verified(row, _WHAT)
        return job, state

    def _commit(
        self,
        app: bytes,
        state: bytes,
        changed: Mapping[Place, bytes],
        gone: Iterable[Place],
        sql: sqlite3.Connection,
    ) -> None:
        if not sql.execute(_PUT_STATE, (app, state)).rowcount:
            self._master(sql, app)  # says what is wrong with it
        self._write(sql, app, changed, gone)

    def _write(
        self, sql: sqlite3.Connection, app: bytes, changed: Mapping[Place, bytes], gone: Iterable[Place]
    ) -> None:
        # Whoever calls knows the values: SQLite would hand copies of them to the function that makes the checksum.
        dropped = [(app, kind, interval) for kind, interval in gone]
        put = [(app, kind, at, block, row_checksum(app, kind, at, block)) for (kind, at), block in changed.items()]
        if dropped:
            sql.executemany(_DROP_BLOCK, dropped)
        if put:
            sql.executemany(_PUT_BLOCK, put)


class PaneReader:
    """One master at one moment, page by page; to be closed, which any thread may do at any time.

    SQLite does not survive a connection that is closed while another thread reads from it: a page that is being read
    then ends first.
    """

    def __init__(self, sql: sqlite3.Connection, app: bytes) -> None:
        self._sql = sql
        self._app = app
        self._after = (-1, 0)
        self._lock = threading.Lock()
        self._is_reading = False
        self._is_closed = False
        try:
            row = sql.execute("SELECT * FROM masters WHERE app = ?", (app,)).fetchone()
            if row is None:
                raise DamagedError("there is no such master any more")
            _, self.job, self.state = verified(row, _WHAT)
        except BaseException:
            sql.close()
            raise

    def page(self, bytes_max: int) -> list[tuple[int, int, bytes]]:
        """Return the next blocks as (kind, interval, block); empty at the end. Damaged blocks are left out.

        Raises:
            ClosedError: it is closed, or another thread reads a page.
        """
        with self._lock:
            if self._is_closed or self._is_reading:
                raise ClosedError("nobody reads from here any more")
            self._is_reading = True
        try:
            return self._page(bytes_max)
        finally:
            self._finish()

    def _finish(self) -> None:
        with self._lock:
            self._is_reading = False
            if self._is_closed:
                self._sql.close()

    def _page(self, bytes_max: int) -> list[tuple[int, int, bytes]]:
        query = "SELECT * FROM history WHERE app = ? AND (kind, interval) > (?, ?) ORDER BY kind, interval"
        found: list[tuple[int, int, bytes]] = []
        size = 0
        for row in self._sql.execute(query, (self._app, *self._after)):
            self._after = row[1], row[2]
            if is_whole(row):
                found.append((row[1], row[2], row[3]))
                size += len(row[3])
            if size >= bytes_max:
                break
        return found

    def close(self) -> None:
        """Let go of the moment, at once or with the end of the page that is being read; again does nothing."""
        with self._lock:
            if not self._is_closed and not self._is_reading:
                self._sql.close()
            self._is_closed = True
