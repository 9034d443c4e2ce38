"""Text that is made from the front on is at each offset what it is as a whole, however it is asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.sources.files import forward
from elf.agents.sources.files.forward import InflatingReader, PipeReader, Utf16Reader
from elf.agents.sources.files.readers import PlainReader
from tests.agents.sources.files.packing import KINDS, PACK, skippable

PARTS = st.lists(st.binary(max_size=40).map(lambda part: part * 9), min_size=1, max_size=4)
ASKED = st.lists(st.tuples(st.integers(0, 700), st.integers(0, 300)), max_size=8)
TEXT = b"".join(b"line %d of a log\n" % number for number in range(400))


@contextmanager
def file_of(data: bytes) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "log")
        path.write_bytes(data)
        yield path


def opened(path: Path, ending: str, *, is_capped: bool = True) -> InflatingReader:
    plain = PlainReader(os.open(path, os.O_RDONLY))
    return InflatingReader(plain, KINDS[ending], is_capped=is_capped)


def all_of(reader: InflatingReader | Utf16Reader | PipeReader) -> bytes:
    text = b""
    while piece := reader.read_at(len(text), 1_000):
        text += piece
    return text


@pytest.mark.parametrize("ending", PACK)
@given(parts=PARTS, asked=ASKED, piece_bytes=st.integers(16, 99), between=st.binary(max_size=20))
def test_members_are_one_text(
    ending: str, parts: list[bytes], asked: list[tuple[int, int]], piece_bytes: int, between: bytes
) -> None:
    gap = skippable(between, len(between) % 16) if KINDS[ending].skips else bytes(len(between))
    data = gap.join(PACK[ending](part) for part in parts) + gap
    text = b"".join(parts)
    with file_of(data) as path, patch.object(forward, "_PIECE_BYTES", piece_bytes):
        reader = opened(path, ending)
        for offset, count in asked:
            assert reader.read_at(offset, count) == text[offset : offset + count]
        assert all_of(reader) == text
        assert reader.damage is reader.fault is None
        reader.close()


@pytest.mark.parametrize("ending", PACK)
@given(share=st.floats(0.05, 0.999))
def test_what_is_cut_short_is_read_on_once_it_goes_on(ending: str, share: float) -> None:
    member = PACK[ending](TEXT)
    data = member + member
    size = max(int(len(data) * share), 32)
    with file_of(data[:size]) as path:
        reader = opened(path, ending)
        text = all_of(reader)
        assert (2 * TEXT).startswith(text) and reader.damage is None
        said = f"the {KINDS[ending].name} data end in the middle: the file was cut short"
        assert reader.fault == (None if size == len(member) else said)
        with path.open("ab") as file:
            file.write(data[size:])
        assert text + reader.read_at(len(text), len(data) * 99) == 2 * TEXT and reader.fault is None
        reader.close()


@pytest.mark.parametrize("ending", PACK)
def test_what_is_damaged_gives_what_is_before_that(ending: str) -> None:
    for damaged in (PACK[ending](TEXT) + b"no member at all, and of some length", PACK[ending](TEXT)[:50] + bytes(999)):
        with file_of(damaged) as path:
            reader = opened(path, ending)
            text = all_of(reader)
            assert TEXT.startswith(text) and (text == TEXT or damaged.endswith(b"\0"))
            assert (reader.fault or "").startswith((f"damaged {KINDS[ending].name} data: ", "the "))
            reader.close()


@pytest.mark.parametrize("ending", PACK)
def test_what_was_made_to_hurt_is_damaged_for_those_who_care(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "RATIO_FREE_BYTES", 1 << 20)
    monkeypatch.setattr(forward, "RATIO_MAX", 100)
    text = b"9\n" * (4 << 20)
    with file_of(PACK[ending](text)) as path:
        for is_capped in (True, False):
            reader = opened(path, ending, is_capped=is_capped)
            read = sum(len(reader.read_at(offset, 1 << 16)) for offset in range(0, len(text), 1 << 16))
            assert (read == len(text)) is (reader.fault is None) is not is_capped
            assert is_capped is (reader.damage == "more than 100 times as large once decompressed: no log is")
            reader.close()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@given(text=st.text(), asked=ASKED, piece_bytes=st.integers(1, 9), rest=st.sampled_from([b"", b"\n", b"\xd8"]))
def test_utf16_is_read_as_utf8(
    encoding: str, text: str, asked: list[tuple[int, int]], piece_bytes: int, rest: bytes
) -> None:
    wanted = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
    data = ("\ufeff" + text).encode(encoding, "surrogatepass")
    with file_of(data + rest) as path, patch.object(forward, "_PIECE_BYTES", piece_bytes):
        reader = Utf16Reader(PlainReader(os.open(path, os.O_RDONLY)), encoding)
        for offset, count in asked:
            assert reader.read_at(offset, count) == wanted[offset : offset + count]
        assert all_of(reader) == wanted
        with path.open("r+b") as file:  # another line comes
            file.truncate(len(data))
            file.seek(0, os.SEEK_END)
            file.write("\u20ac\n".encode(encoding))
        assert reader.read_at(0, 10_000) == wanted + "\u20ac\n".encode()
        reader.close()


def test_utf16_that_was_truncated_is_read_anew() -> None:
    with file_of("\ufeffold line\nold line\n".encode("utf-16-le")) as path:
        reader = Utf16Reader(PlainReader(os.open(path, os.O_RDONLY)), "utf-16-le")
        assert all_of(reader) == b"old line\nold line\n"
        path.write_bytes("\ufeffnew line\nnew line\nnew line\n".encode("utf-16-le"))
        assert reader.read_at(18, 9) == b"new line\n"
        assert reader.read_at(0, 9) == b"new line\n"
        reader.close()


@pytest.mark.parametrize("ending", ["", *PACK])
def test_a_pipe_is_read_as_it_comes_once(ending: str) -> None:
    out, into = os.pipe()
    data = PACK[ending](TEXT) if ending else TEXT

    def write() -> None:
        with open(into, "wb") as file:
            for begin in range(0, len(data), 100):
                file.write(data[begin : begin + 100])
                file.flush()

    writer = threading.Thread(target=write)
    writer.start()
    pipe = PipeReader(out)
    reader = InflatingReader(pipe, KINDS[ending], is_capped=False) if ending else pipe
    assert all_of(reader) == TEXT and reader.fault is None
    with pytest.raises(OSError, match="a pipe can be read once"):
        reader.read_at(0, 1)
    writer.join()
    reader.close()
