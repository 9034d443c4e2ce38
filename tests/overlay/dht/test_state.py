"""Known contacts on disk: they come back, and no file content harms."""

from __future__ import annotations

import logging
import pickle
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.dht import state
from elf.overlay.ids import Contact

CONTACTS = [Contact.at("10.0.0.1", 4250), Contact.at("2001:db8::1", 4251)]


class Trap:
    """What a hostile file would run in the stock library."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (pytest.fail, ("the file ran code",))


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "contacts.json"
    state.save(path, CONTACTS)
    state.save(path, CONTACTS)
    assert state.load(path) == (CONTACTS, False)
    assert [file.name for file in tmp_path.iterdir()] == ["contacts.json"]


def test_no_file_means_no_contacts(tmp_path: Path) -> None:
    assert state.load(tmp_path / "absent.json") == ([], False)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[" * 100_000,
        b'{"version": 2, "contacts": []}',
        b'{"version": 1, "contacts": ["nonsense"]}',
        b'{"version": 1, "contacts": [1]}',
        b'{"version": 1, "contacts": [], "ksize": 20}',
        pickle.dumps(Trap()),
    ],
)
def test_a_damaged_file_is_a_warning(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "contacts.json"
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert state.load(path) == ([], True)
        assert state.load(path) == ([], False), "said and counted once"
    assert "known contacts ignored" in caplog.text
    assert (tmp_path / "contacts.json.damaged").read_bytes() == content


@given(st.binary(max_size=60))
def test_any_content_decodes_or_raises_value_error(data: bytes) -> None:
    with suppress(ValueError):
        state.decode(data)
