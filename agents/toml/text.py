"""TOML that people, or strangers, have written: parsed within limits, and each mistake has a place. Pure."""

from __future__ import annotations

import re
from typing import Any

#: Parts of a dotted key; `tomllib` takes time that grows with the square of their number.
KEY_PARTS_MAX = 32

_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_PART}[ \t]*+\.[ \t]*+){{{KEY_PARTS_MAX}}}")
_LONG_NUMBER = re.compile(r"[0-9_]{1000,}+")
#: A value without quotes, from its beginning: up to the end of the line, a comma, a bracket or a comment.
_VALUE = re.compile(r"""[^\s"'\[\]{},#=][^"'\[\]{},#\n]*""")
_KEY_BEFORE = re.compile(rf"^[ \t]*((?:{_PART}[ \t]*\.[ \t]*)*{_PART})[ \t]*=[ \t]*")
_SAID_CHARS_MAX = 60
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class TomlError(Exception):
    """A text is no TOML, or more than is read: why, and the 1-based line and column."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text. O(text).

    Raises:
        TomlError: it is none, or its keys, nesting or numbers are longer than anybody writes.
    """
    import tomllib  # only here: an agent's jobs come in their wire form

    if (long := _LONG_KEY.search(text)) is not None:
        raise _error_at(f"more than {KEY_PARTS_MAX} words with dots between them", text, long.start())
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        message = _PLACE.sub("", str(error))
        if place is None or place[1] is None:
            raise _error_at(message, text, len(text)) from None
        raise _unquoted(text, int(place[1]), int(place[2])) or TomlError(
            message, int(place[1]), int(place[2])
        ) from None
    except RecursionError:
        raise TomlError("arrays or tables are nested too deeply", 1, 1) from None
    except ValueError:
        # Python reads numbers of some thousand digits only.
        number = _LONG_NUMBER.search(text)
        raise _error_at("a number is too long", text, 0 if number is None else number.start()) from None


def _unquoted(text: str, line: int, column: int) -> TomlError | None:
    """Return the error for a text that lacks its quotes, if that is what stands at, or before, a place."""
    written = text.split("\n")[line - 1]
    key = _KEY_BEFORE.match(written)
    # What begins as a number, a date or a time is found out only where that ends.
    begins = (_VALUE.match(written, at) for at in sorted({column - 1, key.end() if key else column - 1}))
    value = next((each for each in begins if each and each.start() < column <= each.end()), None)
    if value is None or not re.search(r"[^\W\d_]|[:/.]", value[0]):
        return None
    word = value[0].rstrip()
    said = word if len(word) <= _SAID_CHARS_MAX else word[:_SAID_CHARS_MAX] + "..."
    name = f"{key[1]} = " if key and key.end() == value.start() else ""
    if word.lower() in ("true", "false"):
        return TomlError(f"write {name}{word.lower()}", line, value.start() + 1)
    return TomlError(f'text needs quotes: {name}"{said}"', line, value.start() + 1)


def _error_at(message: str, text: str, at: int) -> TomlError:
    before = text[:at]
    return TomlError(message, before.count("\n") + 1, at - before.rfind("\n"))
