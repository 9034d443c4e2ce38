"""Values of JSON in columns of a type, one at a time: this defines what the kernel does. Pure.

In a STRING column values but texts keep their JSON text. A quoted number fits a number column, and a whole one an
integer column however it is written (`2.0`, `2e3`): all of its digits count, so nothing is rounded to one.
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
_PARTS = re.compile(rb"(?P<sign>[+-]?)(?P<whole>[0-9]*)\.?(?P<fraction>[0-9]*)(?:[eE](?P<exponent>[+-]?[0-9]+))?")
#: Digits of an exponent that may come to anything: no line has room for so many zeros as more of them mean.
_EXPONENT_DIGITS_MAX = 9
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
        value = _whole(text) if _DECIMAL.fullmatch(text) else None
    return value if value is not None and -limit <= value < limit else None


def _whole(text: bytes) -> int | None:
    """Return what a number is worth that is whole and has few digits; None for another one.

    >>> _whole(b"9007199254740993.0"), _whole(b"12.50e1"), _whole(b"1e-400"), _whole(b"0e999999999999")
    (9007199254740993, 125, None, 0)
    """
    parts = _PARTS.fullmatch(text)
    assert parts is not None
    digits = (parts["whole"] + parts["fraction"]).lstrip(b"0")
    shown = digits.rstrip(b"0")
    if not shown:
        return 0
    exponent = parts["exponent"] or b"0"
    if len(exponent.lstrip(b"+-0")) > _EXPONENT_DIGITS_MAX:
        return None
    power = int(exponent) + len(digits) - len(shown) - len(parts["fraction"])
    if power < 0 or len(shown) + power > _DIGITS_MAX:
        return None
    value: int = int(parts["sign"] + shown) * 10**power
    return value


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
