"""Which compression a file has is told by its first bytes, of which a visitor may have written those that are text."""

from __future__ import annotations

import gzip
import importlib
import io
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.sources.files.compression import (
    FRONT_BYTES,
    LZ4,
    XZ,
    ZSTD,
    BrokenError,
    Compression,
    RefusedError,
    compression_of,
    refuse_archive,
)
from elf.agents.sources.files.readers import open_input, open_reader
from tests.agents.sources.files.packing import KINDS, PACK, skippable

TEXT = b"a line of a log\n" * 9


def kind_of(data: bytes) -> Compression | None:
    return compression_of(lambda offset, count: data[offset : offset + count])


@pytest.mark.parametrize("ending", PACK)
@given(text=st.binary(max_size=2_000))
def test_what_was_compressed_is_told_by_its_front(ending: str, text: bytes) -> None:
    assert kind_of(PACK[ending](text)) is KINDS[ending]


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_no_text_is_taken_for_compressed(text: str) -> None:
    for front in ("", "x^", "BZh91AY&SY", "BZh", "\t", "\n"):
        assert kind_of(f"{front}{text}\n".encode()) is None


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (skippable(b"") + PACK[".zst"](TEXT), ZSTD),
        (skippable(b"x" * 99_999) + PACK[".zst"](TEXT), ZSTD),
        (skippable(b"x" * 999) + skippable(b"", 15) + PACK[".lz4"](TEXT), LZ4),
        (skippable(b"abc"), ZSTD),
        (skippable(b"abc") + TEXT, None),
        (PACK[".xz"](TEXT)[:6], XZ),
        (PACK[".xz"](TEXT)[:5], None),
        (zlib.compress(TEXT), None),
        (b"", None),
    ],
)
def test_fronts(data: bytes, kind: Compression | None) -> None:
    assert kind_of(data) is kind


def tar(format: int) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=format) as archive:
        info = tarfile.TarInfo("access.log")
        info.size = len(TEXT)
        archive.addfile(info, io.BytesIO(TEXT))
    return made.getvalue()


def zipped(names: tuple[str, ...]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(name, TEXT)
    return made.getvalue()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (tar(tarfile.USTAR_FORMAT), "a tar archive, not a log: unpack it with tar -x"),
        (tar(tarfile.GNU_FORMAT), "a tar archive"),
        (zipped(("access.log",)), "a zip archive, not a log: unpack it with unzip"),
        (zipped(()), "a zip archive"),
        (b"7z\xbc\xaf\x27\x1c\0\x04", "a 7z archive, not a log"),
        (b"Rar!\x1a\x07\x01\0", "a rar archive, not a log"),
        (b"\x1f\x9d\x90\x31\x72\xc8", "compressed with compress, which is not read here"),
        (b"\x5d\0\0\x80\0\xff\xff", "compressed with lzma, which is not read here"),
        (b"PAR1\x15\0\x15", "a Parquet file, not a log"),
        (b"SQLite format 3\0\x10\0", "an SQLite database, not a log"),
    ],
)
def test_archives_are_refused_in_words(data: bytes, said: str) -> None:
    with pytest.raises(RefusedError, match=said) as caught:
        refuse_archive(data[:FRONT_BYTES])
    assert caught.value.strerror == str(caught.value)


def test_what_is_compressed_twice_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(gzip.compress(TEXT)))
    for opened in (open_input, open_reader):
        with pytest.raises(RefusedError, match="compressed twice: what is in it is gzip again; decompress it once"):
            opened(str(tmp_path / "a.log.gz"))


def test_lines_that_look_like_archives_are_none() -> None:
    for line in (
        b"x" * 257 + b"ustar and more",
        b"x" * 257 + b"ustar  and more",
        b"PK of a shop",
        b"PK",
        b"PAR1 /a",
        b"LZIP",
    ):
        refuse_archive(line + b"\n")


@pytest.mark.parametrize(("ending", "mend"), [(".zst", r"pip install 'elf-stream\[zstd\]'"), (".xz", "built with xz")])
def test_what_this_python_cannot_read_is_refused_with_the_command(
    ending: str, mend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str, *_: object) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    monkeypatch.setitem(__import__("sys").modules, "lzma", None)
    with pytest.raises(RefusedError, match=f"compressed with {KINDS[ending].name}, which this Python .*{mend}"):
        KINDS[ending].member(True)


@pytest.mark.parametrize("ending", PACK)
@given(data=st.binary(min_size=64, max_size=99))
def test_whatever_is_wrong_with_data_is_one_error(ending: str, data: bytes) -> None:
    packed = PACK[ending](TEXT)
    for broken in (packed[:12] + data, data, packed[:-4] + data):
        member = KINDS[ending].member(True)
        try:
            while not member.is_over and (broken or not member.needs_data):
                text = member.text(broken, 100)
                broken = b""
                assert len(text) <= 100
        except BrokenError as error:
            assert str(error)
