"""The audit log: whole lines, for its user alone, bounded, and not filled by strangers."""

import json
import pathlib

import pytest

from elf.agents.host import audit_log
from elf.agents.host.audit_log import NAME, REFUSALS_MAX, AuditLog


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


def test_lines_are_for_their_user_alone_and_nothing_in_them_begins_another(tmp_path: pathlib.Path) -> None:
    log = AuditLog(tmp_path, Clock())
    log.note(who="uid 7", what="publish", on='a/b\n{"who": "root"}\x1b[2J\u202e', status=201, why="")
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    (line,) = (tmp_path / NAME).read_bytes().splitlines()
    assert line.isascii() and line.decode().isprintable()
    (entry,) = log.entries(9)
    assert entry == json.loads(line)
    assert entry == {
        "at_ms": 1_000_000,
        "who": "uid 7",
        "what": "publish",
        "on": 'a/b\\n{"who": "root"}\\x1b[2J\\u202e',
        "status": 201,
    }


def test_the_file_is_bounded_and_so_is_a_text(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "FILE_BYTES_MAX", 4_000)
    log = AuditLog(tmp_path, Clock())
    for number in range(100):
        log.note(what="stop", status=number, why="x" * 10_000)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 8_000
    entries = log.entries(1_000)
    assert [entry["status"] for entry in entries][-10:] == list(range(90, 100))
    assert [entry["status"] for entry in log.entries(2)] == [98, 99]


def test_strangers_are_counted_after_the_first_few_of_a_minute(tmp_path: pathlib.Path) -> None:
    clock = Clock()
    log = AuditLog(tmp_path, clock)
    log.note(what="stop", on="shop/sold")
    for _ in range(500):
        log.refuse(peer="192.0.2.1", status=401)
    clock.ms += 60_000
    log.refuse(peer="192.0.2.1", status=401)
    entries = log.entries(1_000)
    assert len(entries) == 1 + REFUSALS_MAX + 1 + 1
    assert entries[0]["on"] == "shop/sold"
    assert entries[-2]["more"] == 500 - REFUSALS_MAX


def test_a_line_that_a_crash_has_cut_and_a_link_are_no_entries(tmp_path: pathlib.Path) -> None:
    (tmp_path / NAME).write_bytes(b'{"at_ms": 1, "what": "stop"}\n{"at_ms": 2, "wh')
    log = AuditLog(tmp_path, Clock())
    assert log.entries(9) == [{"at_ms": 1, "what": "stop"}]
    log.note(what="leap")
    assert [entry["what"] for entry in log.entries(9)] == ["stop", "leap"], "what comes next is a line of its own"
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / NAME).symlink_to(tmp_path / "elsewhere")
    log = AuditLog(folder, Clock())
    log.note(what="stop")
    assert log.trouble and not (tmp_path / "elsewhere").exists()
