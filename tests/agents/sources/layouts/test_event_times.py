"""The event time of a line: of which field it is, and what it is where a line has several, or none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import ConfigError
from elf.agents.sources.layouts.layout import Layout
from elf.agents.sources.layouts.line import take_line
from elf.agents.sources.layouts.notation import read_layout
from elf.agents.sources.layouts.pasted import pasted
from elf.agents.sources.layouts.program import compiled, encoded
from elf.agents.sources.layouts.twin import Twin
from elf.agents.sources.layouts.typed import integer
from elf.agents.sources.times.notations import NO_TIME, NOTATIONS
from tests.agents.sources.native.kernels import all_outputs, same_apart

MS = 1_795_683_600_000


def time_of(layout: Layout, line: bytes) -> int:
    """Return the event time of a line that fits."""
    times = np.zeros(1, np.int64)
    arrays = (times, np.zeros(1, np.uint8), np.zeros((1, 4), np.int32))
    program = encoded(compiled(layout), {})
    assert Twin().take_apart([program], line + b"\n", np.array([len(line)], np.int64), [], *arrays) == (1, 0)
    return int(times[0])


@pytest.mark.parametrize(
    ("text", "line", "ms"),
    [
        ("%h %t %>s %{msec_frac}t", b"192.0.2.1 [26/Nov/2026:09:00:00 +0000] 200 123", MS),
        ("%h %{%Y-%m-%d}t %t", b"192.0.2.1 2026-11-26 [26/Nov/2026:09:00:00 +0000]", MS),
        ("%h %{sec}t.%{msec_frac}t", b"192.0.2.1 1795683600.123", MS + 123),
        ("%h %{%s}t.%{usec_frac}t %>s", b"192.0.2.1 1795683600.123456 200", MS + 123),
        ("%h %{msec}t", b"192.0.2.1 1795683600123", MS + 123),
    ],
)
def test_of_several_times_of_a_line(text: str, line: bytes, ms: int) -> None:
    assert time_of(pasted(text), line) == ms


def test_a_part_may_have_a_time_of_another_notation() -> None:
    layout = read_layout("{?<{ts:time:clf}> ?}{?({ts:time:iso}) ?}{a:word}")
    assert time_of(layout, b"<26/Nov/2026:09:00:00 +0000> x") == time_of(layout, b"(2026-11-26T09:00:00Z) x") == MS
    assert time_of(layout, b"x") == NO_TIME


def test_a_try_that_failed_leaves_no_time() -> None:
    """Behind the rightmost quote there is a time, but the rest does not fit."""
    layout = read_layout('"{t:loose}" {?({ts:time:iso}) ?}{a:int}')
    assert time_of(layout, b'"x" 5') == NO_TIME
    taken = take_line(compiled(layout), b'"x" 5" (2026-11-26T09:00:00Z) 7')
    assert taken.times == {1: MS}


def test_a_column_of_another_kind_is_no_event_time() -> None:
    with pytest.raises(ConfigError, match=r"ts \(int\) in the layout is no time"):
        read_layout("{ts:int} {a:word}")


def test_integers_have_any_number_of_digits() -> None:
    assert integer(b"9" * 5_000) is None
    assert integer(b"-" + b"0" * 5_000 + b"7") == -7
    assert integer(b"9223372036854775808") is None and integer(b"-9223372036854775808") == -(2**63)


ISO_TIMES = (
    "2026-11-26T09:00:00Z",
    "2026-11-26 09:00:00.5+01:00",
    "2026-11-26T09:00:00 +0200",
    "2026-11-26 09:00:00 Z",
)


@given(
    st.sampled_from(
        [*((name, each.example) for name, each in NOTATIONS.items()), *(("iso", each) for each in ISO_TIMES)]
    ),
    st.one_of(st.from_regex(r"[A-Z]{1,6}", fullmatch=True), st.sampled_from(["GET", "INFO", "UTC", "CEST", "Z", "AM"])),
    st.sampled_from(["", " x"]),
)
def test_a_word_behind_a_time_is_no_part_of_it(time: tuple[str, str], word: str, behind: str) -> None:
    layout = pasted(f"{{at:time:{time[0]}}} {{a:word}}" + (" {b:rest}" if behind else ""))
    line = f"{time[1]} {word}{behind}".encode()
    found = same_apart(*all_outputs([compiled(layout)]), [line])
    if word == "UTC" and time[1].endswith(" +0200"):
        return  # as Go writes it
    assert not found.misfits
    assert [line[begin:end].decode() for ((begin, end),) in found.spans] == [time[1], word, *behind.split()]
