"""Which file is which after a restart, among copies, and where inodes and first lines are the same."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from elf.agents.sources.files import identity, readers
from elf.agents.sources.files.known_files import STALLED_MS
from elf.agents.sources.files.readers import Reader
from elf.agents.sources.files.rotation import GONE_MAX
from tests.agents.sources.files.tailing import append, drain, lines, make, restarted


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "access.log"


def test_more_files_than_are_remembered_once_gone_are_known_after_a_restart(tmp_path: Path) -> None:
    logs = [tmp_path / f"{chr(97 + number % 26)}{number}x.log" for number in range(GONE_MAX + 40)]
    for each in logs:
        append(each, lines(2))
    tail = make(tmp_path / "*.log")
    drain(tail)
    again = restarted(tail, tmp_path / "*.log")
    assert drain(again) == b"" and again.gap_count == 0
    more = append(logs[0], lines(1))
    assert drain(again) == more


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("when", ["before a restart", "after it", "while it runs"])
def test_a_copy_beside_the_log_is_not_read(log: Path, compressed: bool, when: str) -> None:
    text = append(log, lines(30))
    tail = make(log)
    assert drain(tail) == text

    def copy() -> None:
        if compressed:
            log.with_name("access.log-20261125.gz").write_bytes(gzip.compress(log.read_bytes()))
        else:
            shutil.copyfile(log, log.with_name("access.log.bak"))

    if when != "after it":
        copy()
    if when == "while it runs":
        assert drain(tail) == b""
    more = append(log, lines(5))
    assert drain(tail) == more
    if when == "after it":
        tail.close()
        copy()
    again = restarted(tail, log)
    assert drain(again) == b""
    more = append(log, lines(5))
    assert drain(again) == more and again.gap_count == 0


def test_a_compressed_copy_that_is_being_made_is_not_read(log: Path) -> None:
    text = append(log, lines(400))
    tail = make(log)
    assert drain(tail) == text
    whole = gzip.compress(text)
    copy = log.with_name("access.log-20261125.gz")
    for size in (10, 200, len(whole) // 2, len(whole)):
        copy.write_bytes(whole[:size])
        assert drain(tail) == b"" and not tail.errors


def test_logs_that_begin_alike_are_two_logs(tmp_path: Path) -> None:
    one, other = tmp_path / "app.log", tmp_path / "app-1.log"
    first = append(one, lines(1))
    append(other, first)
    tail = make(tmp_path / "app*.log")
    drain(tail)
    text = append(one, lines(2)) + append(other, lines(2))
    assert sorted(drain(tail).splitlines())[-4:] == sorted(text.splitlines())
    more = append(other, lines(3))
    assert drain(tail) == more and tail.gap_count == 0


def test_a_log_with_the_first_line_of_the_one_before_does_not_hide_it(log: Path) -> None:
    header = append(log, b"#Fields: date time cs-uri sc-status and a good deal more\n")
    tail = make(log)
    assert drain(tail) == header
    positions = tail.positions()
    tail.close()
    old = append(log, lines(20))
    log.rename(log.with_name("access.log.1"))
    new = append(log, header + lines(5))
    again = make(log)
    again.restore(positions)
    assert drain(again) == old + new


@pytest.mark.parametrize("looked", [False, True])
def test_a_copy_that_was_read_beyond_before_the_truncation_is_not_read(log: Path, looked: bool) -> None:
    text = append(log, lines(30))
    tail = make(log)
    seen = drain(tail)
    shutil.copyfile(log, log.with_name("access.log.1"))
    text += append(log, lines(3))
    seen += drain(tail) if looked else b""
    if not looked:  # as where the tail reads while it does not look at the folder
        seen += tail._files.files[os.stat(log).st_dev, os.stat(log).st_ino].read(1 << 16)
    os.truncate(log, 0)
    text += append(log, lines(2))
    seen += drain(tail)
    assert seen == text and tail.gap_count == 1


def test_the_inode_of_a_copy_may_be_that_of_the_one_before(log: Path) -> None:
    """logrotate's copytruncate with delaycompress: gzip frees the inode of `.1`, and the next copy gets it."""
    tail, text, seen = make(log), b"", b""
    for number in range(4):
        text += append(log, lines(20 + number))
        seen += drain(tail)
        first = log.with_name("access.log.1")
        if first.exists():
            log.with_name(f"access.log.{number + 2}.gz").write_bytes(gzip.compress(first.read_bytes()))
            first.unlink()
        shutil.copyfile(log, first)
        os.truncate(log, 0)
    text += append(log, lines(1))
    seen += drain(tail) + drain(tail)
    assert seen == text and tail.gap_count == 4


def test_half_lines_of_a_file_that_grows_are_not_lines_whatever_its_name(tmp_path: Path) -> None:
    now_ms = 0
    live, other = tmp_path / "app.log", tmp_path / "app-1.log"
    text = append(live, lines(1)) + append(other, lines(2))
    tail = make(tmp_path / "app*.log", now_ms=lambda: now_ms, wait_ms=1_000)
    seen = drain(tail)
    for _ in range(5):
        now_ms += 900
        line = lines(1)
        append(other, line[:10])
        assert drain(tail) == b""
        now_ms += 900
        append(other, line[10:])
        text += line
        seen += drain(tail)
    assert sorted(seen.splitlines()) == sorted(text.splitlines())


@pytest.mark.parametrize(("pause_ms", "gaps"), [(STALLED_MS - 1, 0), (STALLED_MS, 1)])
def test_a_log_that_vanished_during_a_pause_may_not_be_all_that_did(log: Path, pause_ms: int, gaps: int) -> None:
    now_ms = 0
    append(log, lines(3))
    tail = make(log, now_ms=lambda: now_ms)
    drain(tail)
    log.unlink()
    append(log.with_name("other"), b"keeps the inode from being used again\n")
    new = append(log, lines(1))
    now_ms += pause_ms
    assert drain(tail) == new and tail.gap_count == gaps


@pytest.mark.parametrize("how", ["moved away", "truncated", "truncated and looked at"])
def test_a_log_that_could_never_be_opened_leaves_a_gap(log: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    append(log, lines(3))
    tail = make(log)
    with monkeypatch.context() as patched:
        patched.setattr("elf.agents.sources.files.followed.open_reader", _denied)
        assert drain(tail) == b"" and tail.errors
        if how == "moved away":
            log.rename(log.with_name("elsewhere"))
        else:  # or removed, and its inode used again
            os.truncate(log, 0)
        new = append(log, lines(1))
        if how == "truncated and looked at":
            assert drain(tail) == b""
    assert drain(tail) == new
    assert [gap.path for gap in tail.take_gaps()] == [str(log)] and not tail.errors


def _denied(path: str) -> None:
    raise PermissionError(13, "Permission denied")


def test_files_that_begin_otherwise_are_opened_once_to_see_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rotated file is held against all others: opening pairs of a thousand would take minutes."""
    count, opened = 60, 0
    for number in range(count):
        path = tmp_path / f"access.log-2025{number:04}.gz"
        path.write_bytes(gzip.compress(lines(3)))
        os.utime(path, (1e9 + number, 1e9 + number))
    append(tmp_path / "access.log", lines(1))

    def open_reader(path: str) -> Reader:
        nonlocal opened
        opened += 1
        return readers.open_reader(path)

    monkeypatch.setattr(identity, "open_reader", open_reader)
    tail = make(tmp_path / "access.log*")
    assert len(drain(tail).splitlines()) == 3 * count + 1
    assert opened <= 3 * count
