"""Tailing logs that are no plain text on disk: rotated and compressed in any way, in UTF-16, or begun by strangers."""

from __future__ import annotations

import glob
import logging
import os
import shutil
from pathlib import Path

import pytest

from elf.agents.sources.files import compression, forward
from elf.agents.sources.files.tail import Tail
from tests.agents.sources.files.packing import PACK
from tests.agents.sources.files.tailing import FakeSpool, append, drain, lines, make, restarted


def utf16(text: bytes) -> bytes:
    return text.decode().encode("utf-16-le")


def pack(path: Path, ending: str) -> Path:
    """As logrotate does it: the copy has the original's times, and then that is removed."""
    target, status = path.with_name(path.name + ending), path.stat()
    target.write_bytes(PACK[ending](path.read_bytes()))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    path.unlink()
    return target


def test_a_history_is_read_whatever_it_is_compressed_with(tmp_path: Path) -> None:
    names = [f"a.log.{number}{ending}" for number, ending in enumerate(PACK, 1)] + ["a.log-20261125.xz", "a.log"]
    parts = {name: lines(50) for name in names}
    for age, name in enumerate(names):
        path = tmp_path / name
        path.write_bytes(PACK[path.suffix](parts[name]) if path.suffix in PACK else parts[name])
        os.utime(path, (1e9 + age, 1e9 + age))
    tail = make(tmp_path / "a.log*")
    assert drain(tail) == b"".join(parts.values()) and not tail.troubles
    assert drain(restarted(tail, tmp_path / "a.log*")) == b""


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize("name", ["a.log.1", "a.log-20261126", "a.log.2026-11-26-10", "a-20261126.log"])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_rotated_and_compressed_is_read_once(tmp_path: Path, ending: str, name: str, restarts: bool) -> None:
    log = tmp_path / "a.log"
    text = append(log, lines(2_000))
    tail = make(log)
    chunk = tail.read(9_000)
    assert chunk is not None
    seen = chunk.data
    if not restarts:
        seen += drain(tail)
    log.rename(log.with_name(name))
    text += append(log, lines(10))
    if not restarts:
        seen += drain(tail)
    pack(log.with_name(name), ending)
    if restarts:
        tail = restarted(tail, log)
    seen += drain(tail)
    assert seen == text and tail.gap_count == 0 and not tail.troubles
    assert drain(restarted(tail, log)) == b""


@pytest.mark.parametrize("ending", PACK)
def test_a_copy_that_is_being_compressed_is_not_read(tmp_path: Path, ending: str) -> None:
    log = tmp_path / "a.log"
    text = append(log, lines(4_000))
    tail = make(log)
    assert drain(tail) == text
    log.rename(log.with_name("a.log.1"))
    more = append(log, lines(1))
    whole = PACK[ending](text)
    for size in (1, 10, 200, len(whole) // 2, len(whole)):
        log.with_name(f"a.log.1{ending}").write_bytes(whole[:size])
        assert drain(tail) == more and not tail.errors
        more = b""
    log.with_name("a.log.1").unlink()
    assert drain(tail) == b"" and tail.gap_count == 0


def test_a_bomb_is_an_error_and_a_gap_and_all_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "RATIO_FREE_BYTES", 1 << 20)
    (tmp_path / "a.log.1.xz").write_bytes(PACK[".xz"](b"9\n" * (2 << 20)))
    text = append(tmp_path / "a.log", lines(5))
    tail = make(tmp_path / "a.log*")
    read = drain(tail)
    assert read.endswith(text) and len(read) < 3 << 20
    assert tail.errors == {str(tmp_path / "a.log.1.xz"): "more than 200 times as large once decompressed: no log is"}
    assert [gap.path for gap in tail.take_gaps()] == [str(tmp_path / "a.log.1.xz")]


def test_what_cannot_be_decompressed_here_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Asked for, it is a trouble; beside a log whose lines were read before, it is left out, and that is said once."""
    (tmp_path / "a.log.1.zst").write_bytes(PACK[".zst"](lines(9)))
    text = append(tmp_path / "a.log", lines(5))

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(compression.importlib, "import_module", missing)
    tail = make(tmp_path / "a.log*")
    assert drain(tail) == text
    (trouble,) = tail.troubles
    assert "a.log.1.zst: compressed with zstd" in trouble and "pip install 'elf-stream[zstd]'" in trouble
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        tail = make(tmp_path / "a.log")
        assert drain(tail) == text and drain(tail) == b"" and not tail.troubles and tail.gap_count == 0
    (record,) = caplog.records
    assert "a.log.1.zst is left out: compressed with zstd" in record.getMessage()


def test_utf16_is_followed_as_it_grows(tmp_path: Path) -> None:
    log = tmp_path / "u.log"
    log.write_bytes(b"")
    tail = make(log)
    assert drain(tail) == b""
    append(log, b"\xff")
    assert drain(tail) == b""
    text = lines(30)
    data = b"\xfe" + utf16(text)
    append(log, data[:601])
    seen = drain(tail)
    assert text.startswith(seen) and seen.endswith(b"\n")
    append(log, data[601:])
    seen += drain(tail)
    assert seen == text and not tail.waiting
    tail = restarted(tail, log)
    more = lines(300)
    append(log, utf16(more))
    assert drain(tail, 1_000) == more
    assert drain(tail) == b"" and not tail.waiting and tail.gap_count == 0


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "value",
    [
        "caf\u00e9",
        "\u65e5\u672c",
        "\U0001f917",
        "plain",
        "\u4e00\u65e5\u672c" * 40,
        "\u0100\u4e0a\u65e5\u672c" * 20,
        "\U0001f917" * 50,
    ],
)
def test_utf16_without_a_mark_tells_itself(tmp_path: Path, encoding: str, value: str) -> None:
    line = f'192.0.2.1 - - [26/Nov/2026:09:00:00 +0000] "GET /{value} HTTP/1.1" 200 5 "-" "-"\r\n'
    log = tmp_path / "u.log"
    log.write_bytes((line * 9).encode(encoding))
    tail = make(log)
    assert drain(tail, 300).decode() == line * 9
    append(log, line.encode(encoding))
    assert drain(restarted(tail, log)).decode() == line


@pytest.mark.parametrize(
    "data",
    [
        *(b"\0" * 600 + b"x\n", b"a\0b\0c\0\n" * 9, b"plain text, and one \0\n" * 30, b"\0\0\0a\0\0\0\n" * 9),
        *(b"ab\0\n" * 99, b"GET /\0\n" * 99, b"some text and \0 here\0\n" * 30, b"a\0bcdef\n" * 99, b"ab\0cdef\n" * 99),
    ],
)
def test_other_nul_bytes_are_no_utf16(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "u.log").write_bytes(data)
    tail = make(tmp_path / "u.log")
    assert drain(tail) == data


def test_utf16_is_followed_through_rotations(tmp_path: Path) -> None:
    log = tmp_path / "u.log"
    text = lines(300)
    append(log, b"\xff\xfe" + utf16(text))
    tail = make(log)
    seen = drain(tail, 1_000)
    log.rename(log.with_name("u.log.1"))
    late, new = lines(3), lines(5)
    append(log.with_name("u.log.1"), utf16(late))
    append(log, b"\xff\xfe" + utf16(new))
    seen += drain(tail)
    pack(log.with_name("u.log.1"), ".gz")
    assert drain(tail) == b"" and drain(restarted(tail, log)) == b""
    assert seen == text + late + new and tail.gap_count == 0
    plain = lines(4)
    log.rename(log.with_name("u.log.2"))
    append(log, plain)
    assert drain(tail) == plain


def test_utf16_that_is_copied_and_truncated_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "u.log"
    text = lines(300)
    append(log, b"\xff\xfe" + utf16(text))
    tail = make(log)
    seen = drain(tail)
    more = lines(20)
    append(log, utf16(more))
    shutil.copyfile(log, log.with_name("u.log.1"))
    os.truncate(log, 0)
    new = lines(5)
    append(log, b"\xff\xfe" + utf16(new))
    seen += drain(tail)
    assert seen == text + more + new and tail.gap_count == 1
    os.truncate(log, 0)
    plain = lines(3)
    append(log, plain)
    assert drain(tail) == plain, "it is told anew what a truncated file is"


def test_utf16_may_begin_at_its_end(tmp_path: Path) -> None:
    log = tmp_path / "u.log"
    append(log, b"\xff\xfe" + utf16(lines(300) + b"half of an old li"))
    tail = make(log, start="end")
    assert drain(tail) == b""
    append(log, utf16(b"ne\nnew\n"))
    assert drain(tail) == b"new\n"


@pytest.mark.parametrize(
    "front",
    [PACK[".gz"](b"forged\n" * 99), PACK[".bz2"](b"forged\n"), b"\xff\xfea\0\n\0"],
    ids=["gzip", "bzip2", "UTF-16"],
)
def test_strangers_decide_on_the_front_of_no_log(tmp_path: Path, front: bytes) -> None:
    """What people push is in a file of our own, and the first line of a log is of its first visitor."""
    spool, log = tmp_path / "push.log", tmp_path / "a.log"
    front = front.replace(b"\n", b" ") + b"\n"
    for path in (spool, log):
        spools = {str(spool): FakeSpool(lambda: spool.stat().st_size)} if path is spool else None
        text = append(path, front)
        if path is log and front.startswith(b"\xff\xfe"):
            continue  # visitors write no NUL; who can has no log that is text
        text += append(path, lines(50))
        tail = Tail(glob.escape(str(path)), spools=spools)
        assert drain(tail) == text
        again = Tail(glob.escape(str(path)), spools=spools)
        again.restore(tail.positions())
        assert drain(again) == b"" and again.gap_count == 0
        more = append(path, lines(1))
        assert drain(again) == more
