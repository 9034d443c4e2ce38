"""Every kind of rotation, on real files: no line lost, none twice, gaps counted."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from elf.agents.sources.files.tail import Tail
from elf.agents.sources.lines import LINE_BYTES_MAX
from tests.agents.sources.files.tailing import FakeSpool, append, drain, lines, make, restarted


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "access.log"


def test_a_missing_file_appears_later(log: Path) -> None:
    tail = make(log)
    assert tail.read(1000) is None
    assert tail.at_end
    text = append(log, lines(3))
    assert drain(tail) == text


def test_half_a_line_waits_for_its_newline(log: Path) -> None:
    tail = make(log)
    append(log, b"one\ntw")
    assert drain(tail) == b"one\n"
    append(log, b"o\n")
    assert drain(tail) == b"two\n"
    append(log, b"three")
    assert drain(tail) == b""
    assert drain(tail, final=True) == b"three\n"


def test_chunks_are_whole_lines_of_about_the_size_asked(log: Path) -> None:
    text = append(log, lines(5000))
    tail = make(log)
    sizes = []
    parts = b""
    while chunk := tail.read(10_000):
        assert chunk.position_after.offset == len(parts) + len(chunk.data)
        sizes.append(len(chunk.data))
        parts += chunk.data
    assert parts == text
    assert max(sizes) <= 10_000


@pytest.mark.parametrize("restart", [False, True])
def test_rename_and_create(log: Path, restart: bool) -> None:
    text = append(log, lines(10))
    tail = make(log)
    seen = drain(tail)
    text += append(log, lines(5))  # written after the last read, before the rename
    log.rename(log.with_name("access.log.1"))
    text += append(log, lines(7))
    if restart:
        tail = restarted(tail, log)
    seen += drain(tail)
    text += append(log, lines(2))
    seen += drain(tail)
    assert seen == text
    assert tail.gap_count == 0


@pytest.mark.parametrize("restart", [False, True])
def test_several_renames_between_two_looks(log: Path, restart: bool) -> None:
    text = append(log, lines(10))
    tail = make(log)
    seen = drain(tail)
    text += append(log, lines(5))
    for _ in range(3):
        for number in (3, 2, 1):
            older = log.with_name(f"access.log.{number}")
            if older.exists():
                older.rename(log.with_name(f"access.log.{number + 1}"))
        log.rename(log.with_name("access.log.1"))
        text += append(log, lines(4))
    if restart:
        tail = restarted(tail, log)
    seen += drain(tail)
    assert seen == text


def test_the_last_line_of_a_rotated_file_may_lack_its_newline(log: Path) -> None:
    tail = make(log)
    append(log, b"first\nlast")
    assert drain(tail) == b"first\n"
    log.rename(log.with_name("access.log.1"))
    append(log, b"next\n")
    assert drain(tail) == b"last\nnext\n"


def test_a_worker_that_writes_to_the_rotated_file_is_heard(log: Path) -> None:
    clock = [0]
    tail = Tail([str(log)], rotate_wait_ms=5000, now_ms=lambda: clock[0])
    with log.open("ab") as old:
        old.write(b"a\n")
        old.flush()
        assert drain(tail) == b"a\n"
        log.rename(log.with_name("access.log.1"))
        append(log, b"b\n")
        assert drain(tail) == b"b\n"
        old.write(b"late\n")
        old.flush()
    assert drain(tail) == b"late\n"
    clock[0] = 6000
    assert drain(tail) == b""
    assert [place.done for place in tail.places()].count(True) == 1


def test_a_rotated_file_that_is_removed_is_read_to_its_end(log: Path) -> None:
    text = append(log, lines(10))
    tail = make(log)
    seen = drain(tail)
    text += append(log, lines(5))
    log.unlink()
    text += append(log, lines(3))
    seen += drain(tail)
    assert seen == text


@pytest.mark.parametrize("restart", [False, True])
def test_copytruncate_reads_the_rest_from_the_copy(log: Path, restart: bool) -> None:
    text = append(log, lines(50))
    tail = make(log)
    seen = drain(tail)
    text += append(log, lines(20))
    shutil.copy(log, log.with_name("access.log.1"))
    os.truncate(log, 0)
    text += append(log, lines(10))
    if restart:
        tail = restarted(tail, log)
    seen += drain(tail)
    assert sorted(seen.splitlines()) == sorted(text.splitlines())
    assert (tail.gap_count, tail.gap_bytes) == (1, 0)
    assert [gap.bytes for gap in tail.take_gaps()] == [0]
    assert tail.take_gaps() == []
    again = restarted(tail, log)
    assert drain(again) == b""


@pytest.mark.parametrize("later", [5, 500])
def test_copytruncate_without_a_copy_counts_what_was_seen_and_lost(log: Path, later: int) -> None:
    append(log, lines(50))
    tail = make(log)
    drain(tail)
    os.truncate(log, 0)
    text = append(log, lines(later))  # less than before, or beyond our offset: noticed either way
    assert drain(tail) == text
    assert (tail.gap_count, tail.gap_bytes) == (1, 0)


def test_what_was_seen_but_not_read_before_a_truncation_is_counted(log: Path) -> None:
    append(log, lines(1000))
    tail = make(log)
    chunk = tail.read(1000)
    assert chunk is not None
    size = log.stat().st_size
    os.truncate(log, 0)
    text = append(log, lines(1))
    assert drain(tail) == text
    assert tail.gap_bytes == size - len(chunk.data)


def test_an_older_copy_is_not_read_after_the_truncation(log: Path) -> None:
    append(log, lines(50))
    tail = make(log)
    drain(tail)
    shutil.copy(log, log.with_name("access.log.1"))
    assert drain(tail) == b""
    append(log, lines(50))
    drain(tail)
    os.truncate(log, 0)
    text = append(log, lines(1))
    assert drain(tail) == text
    again = restarted(tail, log)
    assert drain(again) == b""


@pytest.mark.parametrize("restart", [False, True])
def test_a_compressed_copy_is_not_read_twice(log: Path, restart: bool) -> None:
    text = append(log, lines(5000))
    tail = make(log)
    seen = drain(tail)
    rotated = log.with_name("access.log.1")
    log.rename(rotated)
    text += append(log, lines(3))
    seen += drain(tail)
    drain(tail)
    compress(rotated)
    if restart:
        tail = restarted(tail, log)
    seen += drain(tail)
    assert seen == text
    assert drain(restarted(tail, log)) == b""


def compress(path: Path) -> Path:
    target = path.with_name(path.name + ".gz")
    status = path.stat()
    with gzip.open(target, "wb") as file:
        file.write(path.read_bytes())
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    path.unlink()
    return target


def test_a_restart_finishes_a_file_that_was_rotated_and_compressed_meanwhile(log: Path) -> None:
    text = append(log, lines(5000))
    tail = make(log)
    chunk = tail.read(20_000)
    assert chunk is not None
    seen = chunk.data
    log.rename(log.with_name("access.log.1"))
    compress(log.with_name("access.log.1"))
    text += append(log, lines(10))
    tail = restarted(tail, log)
    chunk = tail.read(20_000)
    assert chunk is not None
    assert chunk.path.endswith("access.log.1.gz")
    seen += chunk.data
    tail = restarted(tail, log)
    seen += drain(tail)
    assert seen == text
    assert tail.gap_count == 0


def test_a_backlog_is_read_oldest_first_members_joined(tmp_path: Path) -> None:
    parts = [lines(100) for _ in range(4)]
    (tmp_path / "a.log.3.gz").write_bytes(gzip.compress(parts[0][:999]) + gzip.compress(parts[0][999:]))
    (tmp_path / "a.log.2.gz").write_bytes(gzip.compress(parts[1]))
    (tmp_path / "a.log.1").write_bytes(parts[2])
    (tmp_path / "a.log").write_bytes(parts[3])
    for name in os.listdir(tmp_path):
        os.utime(tmp_path / name, (1, 1))
    tail = make(tmp_path / "a.log*")
    assert drain(tail, 500) == b"".join(parts)


def test_a_plain_path_begins_with_the_live_file(log: Path) -> None:
    append(log.with_name("access.log.1"), lines(5))
    log.with_name("access.log.2.gz").write_bytes(gzip.compress(lines(5)))
    text = append(log, lines(5))
    tail = make(log)
    assert drain(tail) == text
    assert drain(restarted(tail, log)) == b""


def test_start_at_the_end(log: Path) -> None:
    append(log, b"old\nhalf of an old li")
    tail = make(log, start="end")
    assert drain(tail) == b""
    append(log, b"ne\nnew\n")
    assert drain(tail) == b"new\n"


def test_a_gzip_that_stays_cut_short_is_an_error_until_it_goes_on(tmp_path: Path) -> None:
    text = lines(50_000)
    data, copy, clock = gzip.compress(text), tmp_path / "a.log.1.gz", [0]
    (tmp_path / "a.log").write_bytes(lines(1))

    def read_at(now_ms: int) -> bytes:
        clock[0] = now_ms
        found = []
        for _ in range(20):  # so many reads have a look in between
            while chunk := tail.read(1 << 20):
                found.append(chunk.data if chunk.path == str(copy) else b"")
        return b"".join(found)

    copy.write_bytes(data[: len(data) // 3])
    tail = Tail(str(tmp_path / "a.log*"), rotate_wait_ms=5_000, now_ms=lambda: clock[0])
    got = read_at(0)
    copy.write_bytes(data[: len(data) // 2])
    got += read_at(4_000)
    got += read_at(8_000)
    assert not tail.errors and not tail.take_gaps(), "it has grown since, so it is waited for anew"
    got += read_at(10_000)
    assert tail.errors == {str(copy): "the gzip data end in the middle: the file was cut short"}
    assert [gap.path for gap in tail.take_gaps()] == [str(copy)]
    assert text.startswith(got) and got.endswith(b"\n"), "the cut line is no line"
    copy.write_bytes(data)
    got += read_at(11_000)
    assert got == text and not tail.errors and not tail.take_gaps()


def test_a_gzip_that_stays_cut_short_is_forgotten_once_it_is_gone(tmp_path: Path) -> None:
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(lines(9))[:-9])
    (tmp_path / "a.log").write_bytes(lines(1))
    tail = Tail(str(tmp_path / "a.log*"), rotate_wait_ms=0)
    for _ in range(40):
        tail.read(1 << 20)
    assert len(tail.take_gaps()) == 1 and tail.errors
    (tmp_path / "a.log.1.gz").unlink()
    for _ in range(40):
        tail.read(1 << 20)
    assert len(tail.take_gaps()) <= 1 and not tail.errors
    assert drain(tail) == b"" and not tail.errors and not tail.take_gaps()


def test_a_damaged_gzip_gives_what_is_whole_and_an_error(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(lines(50_000)))
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "a.log.1.gz").write_bytes(bytes(data))
    tail = make(tmp_path / "a.log*")
    assert drain(tail)
    assert "gzip" in tail.errors[str(tmp_path / "a.log.1.gz")]


def test_a_huge_line_is_cut_and_the_rest_skipped_even_over_a_restart(log: Path) -> None:
    append(log, b"before\n" + b"x" * (3 * LINE_BYTES_MAX))
    tail = make(log)
    seen = drain(tail)
    assert seen == b"before\n" + b"x" * (LINE_BYTES_MAX + 1) + b"\n"
    tail = restarted(tail, log)
    append(log, b"x" * 1000 + b"\nafter\n")
    assert drain(tail) == b"after\n"


def test_an_inode_used_again_is_a_new_file(log: Path) -> None:
    append(log, lines(20))
    tail = make(log)
    drain(tail)
    positions = tail.positions()
    tail.close()
    log.unlink()
    text = append(log, lines(30))  # likely on the same inode, now free
    tail = make(log)
    tail.restore(positions)
    assert drain(tail) == text


def test_files_of_a_glob_take_turns(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        append(tmp_path / name, lines(1000))
    tail = make(tmp_path / "*.log")
    paths = [chunk.path for _ in range(6) if (chunk := tail.read(1000))]
    assert paths == [str(tmp_path / name) for name in ("a.log", "b.log")] * 3


def test_two_files_with_the_same_content_are_two_files(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "a-ssl.log"):
        append(tmp_path / name, b"#Fields: same header\n" * 20)
    assert len(drain(make(tmp_path / "*.log"))) == 3 * 21 * 20


def test_a_folder_in_place_of_the_file_is_an_error(log: Path) -> None:
    log.mkdir()
    tail = make(log)
    assert drain(tail) == b""
    assert str(log) in tail.errors
    log.rmdir()
    text = append(log, lines(1))
    assert drain(tail) == text
    assert not tail.errors


def test_positions_of_a_newer_version_are_refused(log: Path) -> None:
    with pytest.raises(ValueError, match="newer elf"):
        make(log).restore(b'{"version":2,"positions":[]}')


@pytest.mark.parametrize("regrown", [0, 10, 200])
@pytest.mark.parametrize("half", [0, 7])
def test_a_log_that_lost_its_end_while_nobody_read_it_is_not_read_twice(log: Path, regrown: int, half: int) -> None:
    text = append(log, lines(100))
    tail = make(log)
    assert drain(tail) == text
    again = restarted(tail, log)
    os.truncate(log, 60 * 26 + half)  # a power failure
    more = append(log, lines(regrown))
    found = drain(again)
    assert more.endswith(found), "nothing twice; what has grown up to where our place was is lost"
    assert bool(found) == (regrown == 200)
    assert again.gap_count == 1
    assert drain(again) == b""
    last = append(log, lines(3))
    assert drain(again) == (last[26:] if half and not regrown else last)
    again.close()


def test_a_short_log_or_one_with_another_beginning_was_written_anew(log: Path) -> None:
    for count in (3, 100):
        append(log, lines(count))
        tail = make(log)
        drain(tail)
        again = restarted(tail, log)
        log.write_bytes(new := lines(1))
        assert drain(again) == new
        assert again.gap_count == 1
        again.close()
        log.unlink()


def test_a_limit_that_rises_during_a_read_leaves_nothing_unread(log: Path) -> None:
    """A push becomes durable at any moment; after the last one nothing else would make us look at the file again."""
    text = append(log, lines(4))
    limits = iter((0,))
    tail = make(log, spools={str(log): FakeSpool(lambda: next(limits, 104))})
    assert b"".join(drain(tail) for _ in range(2)) == text
    tail.close()


def test_of_a_file_of_our_own_nothing_beyond_its_limit_is_read_and_nothing_twice(log: Path) -> None:
    text, limit = append(log, lines(4)), 0
    spool = FakeSpool(lambda: limit)
    tail = make(log, spools={str(log): spool})
    assert drain(tail) == b""
    limit = 60
    assert drain(tail) == text[:52], "whole lines"
    limit = 104
    assert drain(tail) == text[52:]
    os.truncate(log, 52)
    append(log, lines(2))
    assert drain(tail) == b""
    assert (tail.gap_count, spool.aside[:1]) == (1, ["was changed by somebody else"])
    tail.close()
