"""A write-ahead log is damaged where a transaction follows behind a frame that is not as it was written."""

from __future__ import annotations

import pathlib
import random
import sqlite3
from collections.abc import Iterator

import pytest

from elf.agents.store.checksums import DamagedError
from elf.agents.store.database import Database
from elf.agents.store.write_ahead_log import check_log

HEADER_BYTES, FRAME_BYTES = 32, 24 + 4096


def logged(folder: pathlib.Path, transactions: int = 8, *, restarted: bool = False) -> pathlib.Path:
    """Leave a state file as a killed process does, with so many transactions in the log."""
    path = folder / "state.db"
    sql = sqlite3.connect(path, isolation_level=None)
    sql.execute("PRAGMA journal_mode=WAL")
    sql.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, text BLOB)")
    if restarted:
        for number in range(20):
            sql.execute("INSERT INTO rows VALUES (?, ?)", (1000 + number, random.Random(number).randbytes(9000)))
    sql.execute("PRAGMA wal_checkpoint(RESTART)")
    for number in range(transactions):
        sql.execute("INSERT INTO rows VALUES (?, ?)", (number, random.Random(number).randbytes(3000 * (number % 4))))
    killed = {file: file.read_bytes() for file in folder.glob("state.db*")}
    sql.close()
    for file, content in killed.items():
        file.write_bytes(content)
    return path


def log_of(path: pathlib.Path) -> pathlib.Path:
    return path.with_name("state.db-wal")


def ends(data: bytes, salts: bytes) -> Iterator[int]:
    """Yield the frames that end transactions of the log's last run."""
    for at in range(HEADER_BYTES, len(data) - FRAME_BYTES + 1, FRAME_BYTES):
        if data[at + 8 : at + 16] == salts and any(data[at + 4 : at + 8]):
            yield (at - HEADER_BYTES) // FRAME_BYTES


@pytest.mark.parametrize("restarted", [False, True])
def test_a_bit_is_noticed_wherever_it_flips_before_the_last_transaction(
    tmp_path: pathlib.Path, restarted: bool
) -> None:
    path = logged(tmp_path, restarted=restarted)
    check_log(path)
    whole = log_of(path).read_bytes()
    *_, before, _ = ends(whole, whole[16:24])
    # Where the checksum is damaged that the last transaction goes on from, that looks torn as well.
    hidden = range(HEADER_BYTES + before * FRAME_BYTES + 16, HEADER_BYTES + before * FRAME_BYTES + 24)
    rng = random.Random(1)
    places = [
        *range(HEADER_BYTES + FRAME_BYTES),
        *(rng.randrange(HEADER_BYTES + before * FRAME_BYTES) for _ in range(50)),
    ]
    for place in rng.sample(places, 400):
        data = bytearray(whole)
        data[place] ^= 1 << rng.randrange(8)
        log_of(path).write_bytes(data)
        if place not in hidden:
            with pytest.raises(DamagedError, match="wal is damaged at frame"):
                check_log(path)


def test_a_torn_last_transaction_is_no_damage(tmp_path: pathlib.Path) -> None:
    path = logged(tmp_path)
    whole = log_of(path).read_bytes()
    *_, before, last = ends(whole, whole[16:24])
    assert last - before > 2, "it has several frames"
    for frame in range(before + 1, last + 1):
        data = bytearray(whole)
        at = HEADER_BYTES + frame * FRAME_BYTES
        data[at + 512 : at + 1024] = bytes(512)
        log_of(path).write_bytes(data)
        check_log(path)
    for cut in (0, 10, HEADER_BYTES, HEADER_BYTES + 24, len(whole) - 1, len(whole) - FRAME_BYTES):
        log_of(path).write_bytes(whole[:cut])
        check_log(path)
    log_of(path).write_bytes(bytes(len(whole)))
    check_log(path)
    log_of(path).unlink()
    check_log(path)


def test_what_a_damaged_log_took_is_missed_though_the_mark_is_behind(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    agent_id = database.agent_id
    for number in range(8):
        database.remember(f"key {number}", "value")
    killed = {file: file.read_bytes() for file in tmp_path.glob("state.*")}
    database.close()
    for file, content in killed.items():
        file.write_bytes(content)
    (tmp_path / "state.mark").unlink()
    data = bytearray(killed[tmp_path / "state.db-wal"])
    data[len(data) // 2] ^= 4
    (tmp_path / "state.db-wal").write_bytes(data)
    database = Database(tmp_path / "state.db")
    assert database.agent_id != agent_id
    assert database.damages.counts == {"state": 1}
    database.close()
