"""The mark beside the state file: exact after each write, of one agent, and known when damaged."""

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.store.mark import Mark

OWNER = "0123456789abcdef"


def test_the_last_number_written_is_read_with_its_owner(tmp_path: pathlib.Path) -> None:
    mark = Mark(tmp_path / "state.mark")
    assert mark.read() is None
    for count in (7, 123_456_789, 8):
        mark.write(OWNER, count)
        assert mark.read() == (OWNER, count)
    mark.close()
    assert Mark(mark.path).read() == (OWNER, 8)


@given(place=st.integers(0, 45), bit=st.integers(0, 7), cut=st.none() | st.integers(0, 45))
def test_a_damaged_mark_says_nothing(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int, cut: int | None
) -> None:
    mark = Mark(tmp_path_factory.mktemp("mark") / "state.mark")
    mark.write(OWNER, 12)
    mark.close()
    data = bytearray(mark.path.read_bytes())
    assert len(data) == 47
    data[place] ^= 1 << bit
    mark.path.write_bytes(data if cut is None else data[:cut])
    if cut == 0:
        assert mark.read() is None
    else:
        with pytest.raises(ValueError, match="damaged"):
            mark.read()


def test_a_disk_that_refuses_leaves_the_old_mark(tmp_path: pathlib.Path) -> None:
    mark = Mark(tmp_path / "no such folder" / "state.mark")
    mark.write(OWNER, 1)
    assert mark.read() is None
