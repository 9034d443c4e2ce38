"""What is named to be read once is read once, whatever its names are, and wherever its bytes come from."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import DamagedError, JobError
from elf.agents.sources.files import compression
from elf.agents.sources.files.inputs import Input, find_inputs
from tests.agents.sources.files.packing import PACK

TEXT = b"".join(b"line %d of a log\n" % number for number in range(2_000))
CHUNK_BYTES = 4_096


def text_of(file: Input) -> bytes:
    front = file.front()
    text = b"".join(file.chunks(CHUNK_BYTES))
    assert text.startswith(front) and file.front() == front
    return text


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "access.log").write_bytes(TEXT)
    return tmp_path


@pytest.mark.parametrize(
    ("make", "patterns"),
    [
        (lambda: os.symlink("access.log", "current.log"), ["*.log"]),
        (lambda: os.link("access.log", "hard.log"), ["*.log"]),
        (lambda: os.symlink(".", "folder"), ["access.log", "folder/access.log"]),
        (lambda: None, ["access.log", "./access.log", "*.log"]),
        (lambda: None, ["access.log", "access.log"]),
    ],
    ids=["link", "hard link", "link to a folder", "two ways", "twice"],
)
def test_a_file_is_one_whatever_its_names_are(logs: Path, make: Callable[[], None], patterns: list[str]) -> None:
    make()
    (file,) = find_inputs(patterns).files
    assert text_of(file) == TEXT
    assert len(file.names) == len(set(file.names)) == (1 if patterns == ["access.log"] * 2 else 2)


def test_files_with_equal_text_are_two(logs: Path) -> None:
    (logs / "other.log").write_bytes(TEXT)
    assert [file.name for file in find_inputs(["*.log"]).files] == ["access.log", "other.log"]


@pytest.mark.parametrize("ending", ["", *PACK])
@pytest.mark.parametrize("kind", ["fifo", "descriptor", "-", "/dev/stdin"])
def test_a_pipe_is_read_to_its_end_once(logs: Path, kind: str, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = PACK[ending](TEXT) if ending else TEXT
    out, into = os.pipe()
    name = f"/dev/fd/{out}" if kind == "descriptor" else kind
    if kind == "fifo":
        os.mkfifo("fifo")
    elif kind != "descriptor":
        dup, fstat = os.dup, os.fstat
        monkeypatch.setattr(os, "dup", lambda fd: dup(out if fd == 0 else fd))
        monkeypatch.setattr(os, "fstat", lambda fd: fstat(out if fd == 0 else fd))

    def write() -> None:
        with open("fifo" if kind == "fifo" else into, "wb") as file:
            for begin in range(0, len(data), 7_000):
                file.write(data[begin : begin + 7_000])
                file.flush()

    (file,) = find_inputs([name, name]).files
    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert text_of(file) == TEXT
    finally:
        writer.join()
        os.close(out)
        if kind == "fifo":
            os.close(into)


def test_standard_input_and_its_other_name_are_one(monkeypatch: pytest.MonkeyPatch, logs: Path) -> None:
    with open("access.log", "rb") as log:
        fstat = os.fstat
        monkeypatch.setattr(os, "fstat", lambda fd: fstat(log.fileno() if fd == 0 else fd))
        (file,) = find_inputs(["-", "/dev/stdin", "access.log"]).files
    assert file.names == ["-", "/dev/stdin", "access.log"]


def test_a_device_that_holds_nothing_is_empty() -> None:
    (file,) = find_inputs(["/dev/null"]).files
    assert text_of(file) == b""


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 50))
def test_chunks_are_whole_lines(pieces: list[bytes], chunk_bytes: int) -> None:
    text = b"\n".join(pieces)
    out, into = os.pipe()
    with open(into, "wb") as file:
        file.write(b"# " + text)
    (pipe,) = find_inputs([f"/dev/fd/{out}"]).files
    chunks = list(pipe.chunks(chunk_bytes))
    os.close(out)
    assert all(chunk.endswith(b"\n") for chunk in chunks)
    assert b"".join(chunks) == b"# " + text + (b"" if text.endswith(b"\n") else b"\n")


def test_what_a_glob_matches_and_nobody_can_open_is_left_out_by_name(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (logs / "b.log").write_bytes(b"PK\x03\x04 and more")
    (logs / "c.log").write_bytes(TEXT)
    opened = os.open

    def denied(path: str, flags: int) -> int:
        if str(path) == "c.log":  # whoever runs the tests may read all files
            raise PermissionError(13, "Permission denied")
        return opened(path, flags)

    monkeypatch.setattr(os, "open", denied)
    found = find_inputs(["*.log"])
    assert [file.name for file in found.files] == ["access.log"]
    assert found.unreadable == {
        "b.log": "a zip archive, not a log: unpack it with unzip",
        "c.log": "Permission denied",
    }
    for named, said in (("b.log", "b.log: a zip archive"), ("c.log", "c.log: Permission denied")):
        with pytest.raises(JobError, match=said):
            find_inputs(["access.log", named])
    with pytest.raises(JobError, match=r"b.log: a zip archive.*; c.log: Permission denied"):
        find_inputs(["[bc].log"])


def test_what_cannot_be_decompressed_here_is_named_with_the_command(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (logs / "access.log.1.zst").write_bytes(PACK[".zst"](TEXT))

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(compression.importlib, "import_module", missing)
    for pattern in ("access.log*", "access.log.1.zst"):
        with pytest.raises(JobError, match=r"access.log.1.zst: compressed with zstd.*pip install 'elf-stream\[zstd\]'"):
            find_inputs([pattern])


@pytest.mark.parametrize("ending", PACK)
def test_what_ends_in_the_middle_is_no_input(logs: Path, ending: str) -> None:
    (logs / "cut.log").write_bytes(PACK[ending](TEXT)[:-9])
    for pattern, error in (("cut.log", JobError), ("cut*", DamagedError)):
        (file,) = find_inputs([pattern]).files
        with pytest.raises(error, match=r"cut.log: .*; mend it, or leave it out of the input"):
            list(file.chunks(CHUNK_BYTES))


def test_mistakes(logs: Path) -> None:
    for pattern in ("none.log", "none*", "access.log/x"):
        with pytest.raises(JobError, match=pattern.partition("/")[0].replace("*", r"\*")):
            find_inputs(["access.log", pattern])
    with pytest.raises(JobError, match="directory"):
        find_inputs(["."])
