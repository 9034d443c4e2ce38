"""A row's checksum tells every change of a value, of its kind and of where one value ends and the next begins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.store.checksums import DamagedError, is_whole, row_checksum, verified

values = st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20) | st.binary(max_size=200)
rows = st.lists(values, min_size=1, max_size=5)


@given(rows, rows)
def test_rows_that_differ_have_other_checksums(one: list[object], other: list[object]) -> None:
    same = one == other and [type(value) for value in one] == [type(value) for value in other]
    assert (row_checksum(*one) == row_checksum(*other)) == same  # type: ignore[arg-type]


@given(rows, st.data())
def test_a_flipped_bit_is_seen(row: list[object], data: st.DataObject) -> None:
    flippable = [place for place, value in enumerate(row) if value not in (None, "", b"")]
    if not flippable:
        return
    place = data.draw(st.sampled_from(flippable))
    whole = (*row, row_checksum(*row))  # type: ignore[arg-type]
    value, bit = row[place], data.draw(st.integers(0, 62))
    if isinstance(value, int):
        row[place] = value ^ (1 << bit)
    else:
        raw = bytearray(value.encode() if isinstance(value, str) else value)  # type: ignore[arg-type]
        raw[bit // 8 % len(raw)] ^= 1 << bit % 8
        row[place] = raw.decode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(raw)
    assert is_whole(whole)
    assert not is_whole((*row, whole[-1]))
    with pytest.raises(DamagedError, match="the thing is damaged"):
        verified((*row, whole[-1]), "the thing")


def test_values_that_we_never_write_are_no_whole_row() -> None:
    assert not is_whole((1.5, 0))
    assert not is_whole((b"x", None))
