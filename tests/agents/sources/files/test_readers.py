"""What an opened file's text is: told by its first bytes, and for logs that are written still by the name, too."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.sources.files.compression import RefusedError
from elf.agents.sources.files.readers import PlainReader, Reader, open_input, open_plain, open_reader, text_bytes
from tests.agents.sources.files.packing import PACK

TEXT = b"".join(b"line %d of a log\n" % number for number in range(99))
UTF_16 = "\ufeff" + TEXT.decode() + "caf\u00e9 \u20ac \U0001f600\n"


def text_of(reader: Reader) -> bytes:
    assert reader.fault is None
    size = text_bytes(reader)
    text = reader.read_at(0, size + 1)
    assert len(text) == size
    reader.close()
    return text


@pytest.mark.parametrize("ending", PACK)
def test_a_file_is_decompressed_by_its_first_bytes(ending: str, tmp_path: Path) -> None:
    for name in ("access.log", f"access.log{ending}", "access.log.gz"):
        path = tmp_path / name
        path.write_bytes(PACK[ending](TEXT))
        assert text_of(open_input(str(path))) == TEXT


@pytest.mark.parametrize("ending", PACK)
def test_a_log_is_decompressed_if_its_name_says_so_too(ending: str, tmp_path: Path) -> None:
    for name, is_text in (("access.log", False), (f"access.log{ending}", True), ("access.log.xz", True)):
        path = tmp_path / name
        path.write_bytes(PACK[ending](TEXT))
        assert text_of(open_reader(str(path))) == (TEXT if is_text else path.read_bytes())
        assert text_of(open_plain(str(path))) == path.read_bytes()


@pytest.mark.parametrize(
    "data", [TEXT, b"x^abc\n", b"\x78\x9cabc\n", b"BZh91AY&SY - -\n", b"\xff\xfe of a visitor\n", b""]
)
def test_names_alone_say_nothing(data: bytes, tmp_path: Path) -> None:
    for name in ("a.log", "a.log.gz", "a.log.bz2", "a.log.zst"):
        path = tmp_path / name
        path.write_bytes(data)
        for open_it in (open_reader, open_input, open_plain):
            assert text_of(open_it(str(path))) == data


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_utf16_is_told_by_its_mark(encoding: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.log{ending}"
    data = UTF_16.encode(encoding)
    path.write_bytes(PACK[ending](data) if ending else data)
    for open_it in (open_reader, open_input):
        reader = open_it(str(path))
        assert (reader.is_plain, reader.is_compressed) == (False, bool(ending))
        assert text_of(reader) == UTF_16[1:].encode()


@pytest.mark.parametrize("name", ["logs.tar", "logs.tar.gz", "logs.tgz"])
def test_archives_are_refused(name: str, tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("access.log"))
    data = made.getvalue() if name.endswith(".tar") else PACK[".gz"](made.getvalue())
    path = tmp_path / name
    path.write_bytes(data)
    for open_it in (open_reader, open_input):
        with pytest.raises(RefusedError, match="a tar archive, not a log"):
            open_it(str(path))
    log = tmp_path / "access.log"
    log.write_bytes(data)
    assert text_of(open_reader(str(log))) == data, "a visitor's line may begin so"


FRONTS = [PACK[ending](TEXT)[:count] for ending in PACK for count in (4, 10, 40, 9_999)]
FRONTS += [b"", b"PK\x03\x04", b"\xff\xfe", b"\xfe\xff\0", b"\x50\x2a\x4d\x18", bytes(257) + b"ustar\0"]


@given(st.sampled_from(FRONTS), st.binary(max_size=99), st.sampled_from(["a.log", "a.gz", "a.zst", "a.zip"]))
def test_any_bytes_are_text_or_refused(front: bytes, rest: bytes, name: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(front + rest)
        for open_it in (open_reader, open_input, open_plain):
            try:
                reader = open_it(str(path))
            except RefusedError as error:
                assert str(error)
                continue
            size = text_bytes(reader)
            assert len(reader.read_at(0, size + 1)) == size
            assert reader.fault or not reader.damage
            assert not reader.is_plain or reader.read_at(0, size) == front + rest
            reader.close()


def test_what_is_not_decided_yet_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    for data, is_decided in ((b"", False), (b"\xff", False), (b"\xff\xfea\0", True), (TEXT[:511], False), (TEXT, True)):
        path.write_bytes(data)
        reader = open_reader(str(path))
        assert reader.is_decided is is_decided and isinstance(reader, PlainReader) is not data.endswith(b"\0")
        reader.close()
