"""Records of CSV: values between quotes may hold newlines; kernel and twin find the same, of whatever bytes."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.sources.headed.records import RECORD_LINES_MAX, between_huge, ended, records
from elf.agents.sources.lines import LINE_BYTES_MAX, line_ends
from elf.agents.sources.native import built_for_records

VALUES = st.text('a,"\n\t é', max_size=8)
needs_kernels = pytest.mark.skipif(built_for_records() is None, reason="there is no kernel")


def both(data: bytes, separator: bytes = b",") -> tuple[list[int], int]:
    """Find records by the kernel, if there is one, and by its twin."""
    ends = line_ends(data)
    found = [records(data, ends, separator, kernels) for kernels in (None, built_for_records())]
    assert [(each.lasts.tolist(), each.begun) for each in found[1:]] == [(found[0].lasts.tolist(), found[0].begun)]
    return found[0].lasts.tolist(), found[0].begun


@given(st.lists(st.lists(VALUES, min_size=2, max_size=4), max_size=6), st.sampled_from(",\t"))
def test_records_are_those_that_were_written(rows: list[list[str]], separator: str) -> None:
    text, lasts = io.StringIO(), list[int]()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    for row in rows:
        writer.writerow(row)
        lasts.append(text.getvalue().count("\n") - 1)
    data = text.getvalue().encode()
    assert both(data, separator.encode()) == (lasts, data.count(b"\n"))


@given(st.lists(st.sampled_from([b'"', b'""', b",", b"\n", b"a", b"\t", b"\xff", b'",', b'\n"', b',"']), max_size=60))
def test_whatever_bytes_there_are_each_line_is_in_one_record(pieces: list[bytes]) -> None:
    data = b"".join(pieces) + b"\n"
    lasts, begun = both(data)
    assert lasts == sorted(set(lasts)) and (lasts[-1:] or [-1]) == [begun - 1]
    ends = line_ends(data)
    over = ended(data, ends, b",")
    assert over.begun == len(ends) == data.count(b"\n") and over.lasts[-1] == len(ends) - 1
    assert over.lasts[: len(lasts)].tolist() == lasts


@pytest.mark.parametrize(
    ("text", "lasts", "begun"),
    [
        (b'a,"b\nc"\n', [1], 2),
        (b'a,"b\nts,x\nc",d\ne\n', [2, 3], 4),
        (b'a,"b\nc\n', [], 0),
        (b'e\na,"b\nc\n', [0], 1),
        (b'a,"torn\nb,"c"\nd\n', [0, 1, 2], 3),  # what closes it is no end of a value
        (b'a"b,"c\nd"\n', [0, 1], 2),  # a bare value has no quote, so that nothing begins behind one
        (b'a,"b""\nc"\n', [1], 2),
        (b'a,"b\nc","d\ne"\n', [2], 3),
    ],
)
def test_a_quote_opens_and_closes_where_values_begin_and_end(text: bytes, lasts: list[int], begun: int) -> None:
    assert both(text) == (lasts, begun)


@pytest.mark.parametrize("more", [0, 1])
def test_a_record_has_no_more_lines_and_bytes_than_so_many(more: int) -> None:
    lines = b'a,"' + b"\n" * (RECORD_LINES_MAX - 1 + more) + b'"\n'
    assert both(lines)[0][0] == (0 if more else RECORD_LINES_MAX - 1)
    long = b'a,"\n' + b"x" * (LINE_BYTES_MAX - 5 + more) + b'"\n'
    assert both(long)[0] == ([0, 1] if more else [1])
    # One that can be none any more waits no longer.
    assert both(lines.replace(b'"\n', b"x\n") if more else lines[:-2])[1] == (len(line_ends(lines)) if more else 0)


def test_what_is_too_long_for_a_line_is_a_piece_of_its_own() -> None:
    huge = b"x" * (LINE_BYTES_MAX + 1) + b"\n"
    text = b"a\nb\n" + huge + huge + b"c\n"
    assert [text[begin:end] for begin, end in between_huge(text)] == [b"a\nb\n", huge, huge, b"c\n"]


@needs_kernels
def test_places_that_are_no_line_ends_are_refused() -> None:
    kernels = built_for_records()
    assert kernels is not None
    for ends in ([0], [3], [1, 1], [-1]):
        with pytest.raises(ValueError, match="lines end"):
            kernels.records(b"a\nb", np.array(ends, np.int64), ord(","), 10, 10, np.empty(9, np.int64))
