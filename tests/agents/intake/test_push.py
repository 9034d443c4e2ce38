"""Pushed lines are on disk before they are acknowledged, in order, whole, and bounded."""

import os
import pathlib
import threading
import time
from collections.abc import Callable

import pytest

from elf.agents.errors import ConfigError, UnavailableError
from elf.agents.intake import push
from elf.agents.intake.push import PushLog


def test_concurrent_pushes_are_all_there_whole(tmp_path: pathlib.Path) -> None:
    log = PushLog(tmp_path / "push" / "s.log")
    counts: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: counts.append(log.append(f"{n}\n{n}\n".encode()).lines), name=str(n))
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    lines = log.path.read_text().split()
    assert counts == [2] * 20
    assert lines[::2] == lines[1::2]
    assert sorted(map(int, lines[::2])) == list(range(20))


def test_a_push_without_a_newline_at_its_end_is_not_joined_to_the_next(tmp_path: pathlib.Path) -> None:
    log = PushLog(tmp_path / "s.log")
    assert [log.append(lines).lines for lines in (b"1\n2", b"", b"3")] == [2, 0, 1]
    log.close()
    assert log.path.read_bytes() == b"1\n2\n3\n"


def test_a_push_that_cannot_be_written_whole_leaves_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = PushLog(tmp_path / "s.log")
    log.append(b"first\n")
    written = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 10:
            raise OSError(28, "No space left on device")
        return written(descriptor, data[:5])

    with monkeypatch.context() as patch:
        patch.setattr(push.os, "write", full)
        with pytest.raises(UnavailableError, match="No space"):
            log.append(b"second line\n")
    log.append(b"third\n")
    log.close()
    assert log.path.read_bytes() == b"first\nthird\n"


def test_a_large_spool_is_removed_once_all_of_it_was_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "TRIM_BYTES", 10)
    log = PushLog(tmp_path / "s.log")
    log.append(b"0123456789\n")
    log.trim(10)
    assert log.path.stat().st_size == 11, "one byte is unread"
    log.trim(11)
    assert log.path.stat().st_size == 0
    log.append(b"next\n")
    log.close()
    assert log.path.read_bytes() == b"next\n"


def test_a_spool_of_what_nobody_is_to_see_is_removed_as_soon_as_it_was_read(tmp_path: pathlib.Path) -> None:
    log = PushLog(tmp_path / "s.log", lingers=False)
    log.append(b"one\n")
    log.append(b"two\n")
    log.trim(4)
    assert log.path.read_bytes() == b"one\ntwo\n"
    log.trim(8)
    assert log.path.read_bytes() == b""
    fresh = log.path.stat().st_ino
    log.trim(8)
    assert log.path.stat().st_ino == fresh, "there is nothing to remove"
    log.close()


def test_a_spool_that_nobody_reads_refuses_more(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "UNREAD_BYTES_MAX", 3)
    log = PushLog(tmp_path / "s.log")
    log.append(b"0123\n")
    with pytest.raises(UnavailableError, match="behind"):
        log.append(b"x\n")
    log.close()


def test_pushes_that_fail_to_sync_are_refused_together_and_leave_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = PushLog(tmp_path / "s.log")
    log.append(b"first\n")
    syncing, both, refused = threading.Event(), threading.Event(), list[str]()

    def fail(descriptor: int) -> None:
        syncing.set()
        assert both.wait(20)
        raise OSError(5, "Input/output error")

    def push_one(name: str) -> None:
        with pytest.raises(UnavailableError):
            log.append(f"{name}\n".encode())
        refused.append(name)

    threads = [threading.Thread(target=push_one, args=(name,)) for name in "ab"]
    with monkeypatch.context() as patch:
        patch.setattr(push.os, "fdatasync", fail)
        threads[0].start()
        assert syncing.wait(20)
        threads[1].start()
        end = time.monotonic() + 20
        while log.path.read_bytes() != b"first\na\nb\n":
            assert time.monotonic() < end
        assert log.readable() == 6, "nothing of them may be read yet"
        both.set()
        for thread in threads:
            thread.join(20)
    assert sorted(refused) == ["a", "b"]
    assert (log.path.read_bytes(), log.readable()) == (b"first\n", 6)
    log.append(b"a\n")
    log.close()
    assert log.path.read_bytes() == b"first\na\n"


@pytest.mark.parametrize(("torn", "whole"), [(b"a\nb\nhal", b"a\nb\n"), (b"hal", b""), (b"", b""), (b"a\n", b"a\n")])
def test_a_half_line_of_a_push_that_was_never_acknowledged_is_dropped_at_a_start(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, torn: bytes, whole: bytes
) -> None:
    monkeypatch.setattr(push, "_PEEK_BYTES", 2)
    (tmp_path / "s.log").write_bytes(torn)
    log = PushLog(tmp_path / "s.log")
    assert log.readable() == len(whole)
    log.append(b"next\n")
    log.close()
    assert log.path.read_bytes() == whole + b"next\n"


def test_the_first_push_to_a_file_is_acknowledged_once_its_name_is_durable(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "TRIM_BYTES", 1)
    synced: list[str] = []

    def noted(descriptor: int, sync: Callable[[int], None] = os.fsync) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    folders = {str(tmp_path / "data"), str(tmp_path / "data" / "push")}
    log = PushLog(tmp_path / "data" / "push" / "s.log")
    for number in range(1, 4):
        log.append(b"first\n")
        assert set(synced) == folders, f"file {number}"
        synced.clear()
        log.append(b"next\n")
        assert not synced, "once a file"
        log.trim(11)
    log.close()


def test_a_push_to_a_file_whose_name_cannot_be_made_durable_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    log = PushLog(tmp_path / "push" / "s.log")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        for _ in range(2):
            with pytest.raises(UnavailableError, match="Input/output error"):
                log.append(b"lost\n")
            assert log.readable() == 0
    log.append(b"again\n")
    log.close()
    assert log.path.read_bytes() == b"again\n"


def test_a_new_spool_is_another_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "TRIM_BYTES", 1)
    log = PushLog(tmp_path / "s.log")
    for number in range(1, 6):
        inode = log.path.stat().st_ino
        log.append(b"x" * number + b"\n")
        log.trim(number + 1)
        assert log.path.stat().st_ino != inode
    log.close()


def test_a_spool_that_cannot_be_made_is_the_operators(tmp_path: pathlib.Path) -> None:
    (tmp_path / "push").write_bytes(b"a file")
    with pytest.raises(ConfigError, match="cannot be opened"):
        PushLog(tmp_path / "push" / "s.log")
