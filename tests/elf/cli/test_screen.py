"""Shown results: drawn anew on a terminal, one below the other elsewhere, and nothing of data raw."""

from __future__ import annotations

import io

from rich.console import Console

from elf.cli.screen import Screen


def shown(*, is_terminal: bool) -> str:
    out = io.StringIO()
    screen = Screen(Console(file=out, force_terminal=is_terminal, width=60, color_system=None, highlight=False))
    screen.note("before")
    with screen.live():
        screen.show("first")
        screen.note("meanwhile \x1b[2J")
        screen.show("second")
    return out.getvalue()


def test_plain_lines_where_nobody_looks() -> None:
    assert shown(is_terminal=False) == "before\nfirst\nmeanwhile \\x1b[2J\nsecond\n"


def test_one_picture_on_a_terminal() -> None:
    text = shown(is_terminal=True)
    assert text.startswith("before\n")
    # Each is drawn with the notes below it, over the one before; the last one once more, to stay.
    assert text.count("first") == 2 and text.count("second") == 2
    assert text.rstrip("\x1b[?25h").rstrip().endswith("meanwhile \\x1b[2J")
    assert "\x1b[2J" not in text
