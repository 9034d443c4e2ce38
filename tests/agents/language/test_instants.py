"""Times for people."""

from __future__ import annotations

from elf.agents.language.instants import instant


def test_milliseconds_are_written_where_there_are_some() -> None:
    assert instant(1_767_225_650_000) == "2026-01-01T00:00:50Z"
    assert instant(1_767_225_650_007) == "2026-01-01T00:00:50.007Z"
