"""A record is one line, whatever strangers wrote; a traceback's lines look like none."""

import logging
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.host.log_lines import LineFormatter, escaped


def record(message: str, *args: object, exc_info: object = None) -> logging.LogRecord:
    return logging.LogRecord("elf.x", logging.WARNING, "x.py", 1, message, args, exc_info)  # type: ignore[arg-type]


@given(st.text())
def test_a_record_is_one_visible_line(text: str) -> None:
    line = LineFormatter().format(record("asked for %s", text))
    assert len(line.splitlines()) == 1
    unseen = {c for c in line if unicodedata.category(c) in ("Cc", "Zl", "Zp", "Cs")} - {"\t"}
    assert not unseen and line.encode()


@given(st.text())
def test_a_traceback_has_no_line_that_looks_like_a_record(text: str) -> None:
    try:
        raise ValueError(text + "\n2026-11-26 09:00:00,000 ERROR elf: forged\x1b[2J")
    except ValueError:
        lines = LineFormatter().format(record("failed", exc_info=sys.exc_info())).splitlines()
    assert lines[0].endswith("WARNING elf.x: failed")
    assert all(line.startswith("  | ") for line in lines[1:]) and len(lines) > 3
    assert "\x1b" not in "".join(lines)


def test_what_is_visible_stays() -> None:
    assert escaped("/tmp/ö „x“ \t 日本 🎈") == "/tmp/ö „x“ \t 日本 🎈"
    assert escaped("a\nb\x1b[0m\u202e\x9b") == r"a\nb\x1b[0m\u202e\x9b"
