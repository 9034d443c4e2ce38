"""Which files patterns match, among folders, pipes and links."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from elf.agents.sources.files.families import family_on_disk, live_paths, matched_files, why_no_log
from tests.agents.sources.files.tailing import append, drain, lines, make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one log, a link to it, and much that is no log."""
    append(tmp_path / "a.log", lines(3))
    (tmp_path / "link.log").symlink_to("a.log")
    (tmp_path / "folder.log").mkdir()
    (tmp_path / "a.log.1").mkdir()
    (tmp_path / "nowhere.log").symlink_to("gone")
    os.mkfifo(tmp_path / "pipe.log")
    os.mkfifo(tmp_path / "a.log.2")
    return tmp_path


def test_only_regular_files_and_links_to_such_are_logs(folder: Path) -> None:
    logs = {str(folder / name) for name in ("a.log", "link.log")}
    for pattern in ("*", "*.log", "**"):
        assert set(matched_files(str(folder / pattern))) == logs
        assert live_paths([str(folder / pattern)]) == ({log: {log} for log in logs}, [], {})
    assert [seen.path for seen in family_on_disk(str(folder / "a.log"))] == [str(folder / "a.log")]


def test_a_glob_that_matches_no_file_matches_nothing(folder: Path) -> None:
    pattern = str(folder / "folder*")
    assert live_paths([pattern]) == ({}, [pattern], {})


def test_a_path_that_names_no_file_has_a_reason(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        named = [str(folder / name) for name in ("folder.log", "pipe.log", "socket", "a.log", "link.log")]
        reasons = live_paths(named).unreadable
    pipe = "a pipe or a socket, not a file"
    assert reasons == {named[0]: "Is a directory", named[1]: pipe, named[2]: pipe}
    assert why_no_log(str(folder / "gone")) is None, "it may come"


@pytest.mark.parametrize("pattern", ["*", "*.log", "**"])
def test_what_is_no_log_keeps_no_source_from_its_logs(folder: Path, pattern: str) -> None:
    (folder / "link.log").unlink()
    tail = make(folder / pattern)
    assert drain(tail).count(b"\n") == 3
    assert tail.troubles == []
    text = append(folder / "a.log", lines(2))
    assert drain(tail) == text


def test_a_pipe_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    os.mkfifo(log)
    tail = make(log)
    assert drain(tail) == b""
    assert tail.troubles == [f"{log}: a pipe or a socket, not a file"]
    log.unlink()
    text = append(log, lines(1))
    assert drain(tail) == text and tail.troubles == []


def test_a_pipe_that_takes_the_place_of_a_file_that_was_seen_holds_nobody_up(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        append(tmp_path / name, lines(30))
    tail = make(tmp_path / "*.log")
    first = tail.read(100)
    assert first is not None and first.stream == str(tmp_path / "a.log")
    (tmp_path / "b.log").unlink()
    os.mkfifo(tmp_path / "b.log")
    assert len(first.data + drain(tail)) == 30 * len(lines(1))
