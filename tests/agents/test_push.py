"""Pushed lines are on disk before they are acknowledged, in order, whole, and bounded."""

import os
import pathlib
import threading

import pytest

from agents import push
from agents.errors import UnavailableError
from agents.push import PushLog


def test_concurrent_pushes_are_all_there_whole(tmp_path: pathlib.Path) -> None:
    log = PushLog(tmp_path / "push" / "s.log")
    counts: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: counts.append(log.append(f"{n}\n{n}\n".encode())), name=str(n))
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


def test_a_spool_that_nobody_reads_refuses_more(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "UNREAD_BYTES_MAX", 3)
    log = PushLog(tmp_path / "s.log")
    log.append(b"0123\n")
    with pytest.raises(UnavailableError, match="behind"):
        log.append(b"x\n")
    log.close()
