"""Server-sent events come out whole however the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import UnavailableError
from elf.client.events import Event, EventReader

STREAM = (
    b': alive\n\nevent: result\nid: 1.1\ndata: {"a":1}\n\n: alive\n\ndata: two\ndata: lines\n\nevent: result\ndata: cut'
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_any_cut_gives_the_same_events(cuts: list[int]) -> None:
    reader, events = EventReader(), []
    bounds = [0, *sorted(cuts), len(STREAM)]
    for start, end in pairwise(bounds):
        events += reader.feed(STREAM[start:end])
    assert events == [Event("result", b'{"a":1}', "1.1"), Event("message", b"two\nlines", None)]


def test_an_event_without_end_is_refused() -> None:
    reader = EventReader(bytes_max=10)
    with pytest.raises(UnavailableError):
        reader.feed(b"data: 123456")
