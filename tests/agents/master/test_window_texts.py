"""The three forms of a window, and what is none."""

from __future__ import annotations

import pytest

from elf.agents.errors import BadRequestError
from elf.agents.master.results import Span
from elf.agents.master.window_texts import Last, Latest, parse_window


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("latest", Latest()),
        (" Latest ", Latest()),
        ("300s", Last(300_000)),
        ("5 minutes", Last(300_000)),
        ("5m", Last(300_000)),
        ("250ms", Last(250)),
        ("2h", Last(7_200_000)),
        ("1 day", Last(86_400_000)),
        ("0/1", Span(0, 1)),
        ("2026-11-20T12:00:00Z/2026-11-20T12:05:00Z", Span(1_795_176_000_000, 1_795_176_300_000)),
        ("2026-11-20T12:00/2026-11-20T14:05+02:00", Span(1_795_176_000_000, 1_795_176_300_000)),
        ("2026-11-20/2026-11-21", Span(1_795_132_800_000, 1_795_219_200_000)),
    ],
)
def test_windows(text: str, window: object) -> None:
    assert parse_window(text) == window


@pytest.mark.parametrize(
    "text", ["", "300", "s", "-5s", "1/1", "2/1", "a/b", "1/", "/", "1/2/3", "1" * 101, "5 fortnights"]
)
def test_what_is_no_window(text: str) -> None:
    with pytest.raises(BadRequestError):
        parse_window(text)
