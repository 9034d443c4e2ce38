"""The SQLite file: opening, version, damage, one writer at a time.

Every method of the repositories beside this module runs inside `with database.transaction() as sql:`; when that ends
without an error its changes are on disk (synchronous=FULL), otherwise none of them happened. Calls may come from any
thread.

A file is taken as it is only if its write-ahead log has no damage before its end, SQLite finds its pages in order, the
checksums of the agent's own account are right and it holds as many transactions as its mark says; else
`elf.agents.store.quarantine` sets it aside. Rows of `history` and `records` are checked where they are read.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import pathlib
import random
import sqlite3
from collections.abc import Iterator

from elf.agents.host.clock import Clock
from elf.agents.host.disk_damage import Damages
from elf.agents.store import quarantine
from elf.agents.store.batches import BLOCKS_MAX, LOOK_S, Batch, Turns, undone
from elf.agents.store.checksums import DamagedError, is_whole, row_checksum, verified
from elf.agents.store.mark import Mark
from elf.agents.store.schema import KEY, StoreError, bring_up_to_date, put, put_identity
from elf.agents.store.tables import META, TABLES
from elf.agents.store.write_ahead_log import check_log
from elf.overlay.keys import KEY_BYTES, new_identity

#: Pages that are kept in memory: what an agent writes again and again is little, and the system has the rest.
CACHE_KIB = 256
#: While so much is free beside the write-ahead log, it is looked at again after so long only.
AMPLE_BYTES, ROOM_LOOK_S = 256 << 20, 1.0


class Database:
    """The agent's one SQLite file.

    Args:
        path: it; made if it is not there.
        rng: draws identities; a `random.SystemRandom` unless told otherwise.
        clock: the machine's clocks; the real ones unless told otherwise.

    Attributes:
        agent_id: this installation's name in rosters: made once with the file, so an emptied disk is a new agent. It
            follows from the key, but for files that releases without keys have made.
        secret: the agent's key, made with it; empty in a file of such a release until `begin_signing`.
        predecessor: the agent whose state was here before and was lost, if it is known.
        damages: what was found damaged.
        uncertain_before_ms: up to this time of day commits of masters may be lost, with a state file that was damaged
            then; None if there is no such doubt.
    """

    def __init__(self, path: pathlib.Path, *, rng: random.Random | None = None, clock: Clock | None = None) -> None:
        self.path = path
        self._rng = rng if rng is not None else random.SystemRandom()
        self._clock = clock or Clock()
        self.damages = Damages()
        self._turns = Turns()
        #: What is not durable yet, and how much was changed before it.
        self._batch: Batch | None = None
        self._changes = 0
        #: When to look again how much room there is, by the monotonic clock.
        self._look_s = -math.inf
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock_file(path)
        self._mark = Mark(path.with_name(path.stem + ".mark"))
        try:
            quarantine.finish(path)
            self._sql = self._open()
            self.agent_id = self._meta("agent_id") or ""
            self.secret = bytes.fromhex(self._meta(KEY) or "")
            self._transactions = int(self._meta("transactions") or 0)
            self.predecessor = self._meta("predecessor")
            uncertain = self._meta("uncertain_before_ms")
        except BaseException as error:
            self._holder.close()
            if not isinstance(error, sqlite3.Error | OSError):
                raise
            raise StoreError(f"{path}: cannot be read ({error}); see that its folder can be written") from None
        self.uncertain_before_ms = int(uncertain) if uncertain else None

    def _lock_file(self, path: pathlib.Path) -> None:
        """Keep a second agent away from this folder for as long as this process lives."""
        self._holder = (path.parent / "lock").open("w")
        try:
            fcntl.flock(self._holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._holder.close()
            raise StoreError(
                f"{path.parent} is in use by another agent; give this one its own folder (agent.data)"
            ) from None

    def _open(self) -> sqlite3.Connection:
        """Open the file, or the successor of a damaged one."""
        try:
            return self._open_good()
        except (DamagedError, sqlite3.DatabaseError) as error:
            if not quarantine.is_damage(error, self.path):
                raise
            certain = self._is_newest()
            aside = quarantine.succeed(self.path, self._create)
            self.damages.note(
                "state",
                f"{self.path} is damaged ({error}): it is set aside as {aside.name}, and this agent begins anew, as "
                "one that lost its disk; of the jobs it is master of it keeps what can be read",
            )
            sql = self._open_good()
            if not certain and sql.execute("SELECT 1 FROM masters").fetchone():
                put(sql, "uncertain_before_ms", str(self._clock.wall_ms()))
            return sql

    def _open_good(self) -> sqlite3.Connection:
        check_log(self.path)
        sql = connect(self.path)
        try:
            sql.execute("PRAGMA journal_mode=WAL")
            sql.execute("PRAGMA synchronous=FULL")
            sql.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
            _check_pages(sql)
            bring_up_to_date(sql, self.path, self._rng)
            _check_rows(sql)
            self._check_mark(sql)
        except BaseException:
            sql.close()
            raise
        return sql

    def _create(self, path: pathlib.Path) -> sqlite3.Connection:
        """Make a new state file, of a new agent."""
        sql = connect(path)
        sql.execute("PRAGMA synchronous=FULL")
        bring_up_to_date(sql, path, self._rng)
        return sql

    def _is_newest(self) -> bool:
        """Tell whether a damaged file is known to hold the last transaction."""
        found = {str(row[0]): str(row[1]) for row in quarantine.good_rows(self.path, META)}
        try:
            check_log(self.path)
            owner, counted = self._mark.read() or ("", 0)
            return owner == found["agent_id"] and int(found["transactions"]) >= counted
        except (DamagedError, KeyError, ValueError):
            return False

    def _check_mark(self, sql: sqlite3.Connection) -> None:
        found = dict(sql.execute("SELECT key, value FROM meta").fetchall())
        agent_id, held = found["agent_id"], int(found["transactions"])
        try:
            owner, counted = self._mark.read() or (agent_id, 0)
        except ValueError as error:
            self.damages.note("mark", f"{error}; it only guards {self.path.name}, and is written anew")
            owner, counted = agent_id, 0
        if owner == agent_id and held < counted:
            raise DamagedError(f"it lacks the last {counted - held} of {counted} transactions")
        if owner != agent_id:
            put(sql, "predecessor", owner)
            if not self.damages.counts["state"]:
                self.damages.note(
                    "state",
                    f"{self.path} is new, and the state of agent {owner} is gone from here: this agent begins anew",
                )
        self._mark.write(agent_id, held)

    def _meta(self, key: str) -> str | None:
        row = self._sql.execute("SELECT * FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(verified(row, f"{key} in {self.path}")[1])

    def recall(self, key: str) -> str | None:
        """Return what was to be remembered under a name."""
        with self._turns.turn():
            return self._meta(key)

    def remember(self, key: str, value: str) -> None:
        """Keep a value under a name."""
        with self.transaction() as sql:
            put(sql, key, value)

    def begin_anew(self) -> None:
        """Take another identity, with all that is here."""
        agent_id, secret = new_identity(self._rng)
        # The mark first: a file whose mark is another agent's takes that one for lost, and nobody knows this one yet.
        self._mark.write(agent_id, self._transactions)
        # What is written from now on counts for the one that is noted in the mark.
        self.agent_id = agent_id
        self.secret = secret
        with self.transaction() as sql:
            put_identity(sql, agent_id, secret)

    def begin_signing(self) -> None:
        """Give an agent that releases without keys have made one; its name stays."""
        if not self.secret:
            secret = self._rng.randbytes(KEY_BYTES)
            self.remember(KEY, secret.hex())
            self.secret = secret

    def settle_doubts(self) -> None:
        """Forget `uncertain_before_ms`, once every master has noted it."""
        with self.transaction() as sql:
            sql.execute("DELETE FROM meta WHERE key = 'uncertain_before_ms'")
        self.uncertain_before_ms = None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block atomically and durably, whichever thread asks; one at a time.

        Blocks that wait for each other are one transaction of SQLite's (`elf.agents.store.batches`): if the disk
        refuses it, that is an error in all of them.
        """
        with self._turns.turn():
            batch = self._batch or self._begin()
            alone = batch.blocks == 0
            batch.blocks = batch.blocks + 1
            try:
                if not alone:
                    self._sql.execute("SAVEPOINT block")
                yield self._sql
                if not alone:
                    self._sql.execute("RELEASE block")
            except BaseException as error:
                if alone or not undone(self._sql):
                    self._give_up(batch, error)
                else:
                    self._note(error)
                    self._end_turn()
                raise
            self._end_turn()
        while not batch.ends_within(LOOK_S):
            with self._turns.turn():
                self._end_turn()

    def _begin(self) -> Batch:
        try:
            if self._sql.in_transaction:  # of a batch that could not even be given up
                self._sql.execute("ROLLBACK")
            self._sql.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._note(error)
            raise
        self._batch = Batch()
        self._changes = self._sql.total_changes
        return self._batch

    def _end_turn(self, *, last: bool = False) -> None:
        """Make what was done durable, unless somebody waits who will do so; `last`: nobody can any more."""
        batch = self._batch
        if batch is None or (not last and self._turns.someone_waits and batch.blocks < BLOCKS_MAX):
            return
        count = self._transactions
        try:
            if self._sql.total_changes != self._changes:
                count += 1
                put(self._sql, "transactions", str(count))
            self._sql.execute("COMMIT")
        except BaseException as error:
            self._give_up(batch, error)
            return
        self._batch = None
        try:
            if count != self._transactions:
                self._transactions = count
                self._mark.write(self.agent_id, count)
                self._keep_room()
        finally:
            batch.end()

    def _give_up(self, batch: Batch, error: BaseException) -> None:
        """Undo all blocks of a batch, and tell those who wait for it why."""
        self._note(error)
        self._batch = None
        try:
            # Where the disk refused, SQLite has mostly done that itself.
            if self._sql.in_transaction:
                self._sql.execute("ROLLBACK")
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
                self._make_room()
        finally:
            batch.end(error)

    def _note(self, error: BaseException) -> None:
        """Count damage that shows while the agent runs, once."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) and not self.damages.counts["state"]:
            self.damages.note(
                "state", f"{self.path} is damaged ({error}); restart the agent: it sets the file aside and begins anew"
            )

    def _keep_room(self) -> None:
        """Empty the write-ahead log while the file itself can still grow by what is in it.

        Called after each transaction; where room is ample it looks once a second: that much is hardly gone before.
        """
        now_s = self._clock.up_ms() / 1000
        if now_s < self._look_s:
            return
        with contextlib.suppress(OSError):
            disk = os.statvfs(self.path.parent)
            left = disk.f_bavail * disk.f_frsize - self.path.with_name(self.path.name + "-wal").stat().st_size
            if left >= AMPLE_BYTES:
                self._look_s = now_s + ROOM_LOOK_S
            elif left < 0:
                self._make_room()

    def _make_room(self) -> None:
        """Give the write-ahead log's space back: it may be all that the next attempt lacks."""
        with contextlib.suppress(sqlite3.Error):
            self._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def reader(self) -> sqlite3.Connection:
        """Return a second connection that reads the file as it is now, for as long as it is open."""
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        sql = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10)
        sql.execute("BEGIN")
        return sql

    def close(self) -> None:
        """Close the file and let another process open it."""
        with self._turns.turn():
            self._end_turn(last=True)
            self._sql.close()
            self._mark.close()
            self._holder.close()


def connect(path: pathlib.Path) -> sqlite3.Connection:
    """Open a file with what its tables need: checksums of rows, and texts that damage has made odd."""
    sql = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    sql.text_factory = quarantine.read_text
    sql.create_function("row_checksum", -1, row_checksum, deterministic=True)
    return sql


def _check_pages(sql: sqlite3.Connection) -> None:
    """Let SQLite look at every page. O(bytes); raises DamagedError."""
    (found,) = sql.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise DamagedError(" ".join(str(found).split()))


def _check_rows(sql: sqlite3.Connection) -> None:
    """Check every row of the agent's own account. O(bytes); raises DamagedError."""
    for table in TABLES:
        if table.own and not all(map(is_whole, sql.execute(table.forward))):
            raise DamagedError(f"a row of its table {table.name} is not as it was written")
