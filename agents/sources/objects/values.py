"""Values of JSON in columns of a type, one at a time: this defines what the kernel does. Pure.

In a STRING column values but texts keep their JSON text. A quoted number fits a number column, and a whole one an
integer column however it is written (`2.0`, `2e3`; with a point or an exponent it is a double: exact up to 2^52).
"""

from __future__ import annotations

import json
import re

#: A surrogate escape is right only as a pair; alone it stands for no character.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.S
)
_QUOTED_INTEGER = re.compile(rb"[+-]?[0-9]{1,19}")
_INTEGER = re.compile(rb"-?[0-9]+")
_DECIMAL = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
#: Digits that an integer of 64 bits has at most: Python takes no time for these.
_DIGITS_MAX = 19

Value = str | int | float | bool | None


def without_lone_surrogates(text: bytes) -> bytes:
    r"""Replace the escape of half a surrogate pair by that of U+FFFD.

    >>> without_lone_surrogates(rb'"\ud83d\ude00 \ud83d \\ud83d"')
    b'"\\ud83d\\ude00 \\ufffd \\\\ud83d"'
    """
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match["lone"] else match[0], text)


def unescaped(text: bytes) -> bytes:
    """Return what is between a text's quotes without its escapes."""
    if b"\\" not in text:
        return text
    value: str = json.loads(b'"' + without_lone_surrogates(text) + b'"')
    return value.encode()


def scalar(text: bytes) -> Value:
    """Return a value as Python has it; None for objects, arrays and numbers beyond all reason."""
    if text[:1] in (b"{", b"["):
        return None
    try:
        value: Value = json.loads(without_lone_surrogates(text))
    except ValueError:  # an integer of thousands of digits
        return None
    return value


def string(text: bytes) -> bytes:
    """Return a value in a STRING column."""
    return unescaped(text[1:-1]) if text.startswith(b'"') else text


def integer(text: bytes, bits: int) -> int | None:
    """Return a value as an integer of so many bits; None if it does not fit."""
    limit = 1 << bits - 1
    if text.startswith(b'"'):
        text = unescaped(text[1:-1])
        value = int(text) if _QUOTED_INTEGER.fullmatch(text) else None
    elif _INTEGER.fullmatch(text):
        value = int(text) if len(text.lstrip(b"-")) <= _DIGITS_MAX else None
    else:
        number = float(text) if _DECIMAL.fullmatch(text) else 0.5
        value = int(number) if number.is_integer() else None
    return value if value is not None and -limit <= value < limit else None


def decimal(text: bytes) -> float | None:
    """Return a value as a double; None if it does not fit."""
    if text.startswith(b'"'):
        text = unescaped(text[1:-1])
    if not _DECIMAL.fullmatch(text):
        return None
    number = float(text)
    return number if abs(number) != float("inf") else None


def boolean(text: bytes) -> bool | None:
    """Return a value as a boolean; None if it does not fit."""
    if text.startswith(b'"'):
        text = unescaped(text[1:-1]).lower()
    return {b"true": True, b"false": False}.get(text)
