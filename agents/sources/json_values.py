"""JSON values of single lines, exactly: the slow road for lines that the fast decoder of `json_lines` refuses.

A line comes here when it is malformed, or when a wanted value is not of its column's plain JSON type: a number for a
STRING column (its text is taken as written), a quoted number for a BIGINT column, an object for a STRING column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

import msgspec

from elf.agents.language.types import SqlType

#: A surrogate escape is right only as a pair; alone it stands for no character.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.S
)
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LIMITS = {SqlType.INT: 2**31, SqlType.BIGINT: 2**63}

Value = str | int | float | bool | None


class MalformedError(ValueError):
    """The line is no JSON object; the text says why."""


class RawLine:
    """Splits one line into the raw JSON texts of the wanted fields."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        """Take the wanted fields as attribute name -> JSON name."""
        self._names = list(fields)
        struct = msgspec.defstruct(
            "RawLine", [(name, msgspec.Raw, msgspec.Raw(b"null")) for name in fields], rename=dict(fields), gc=False
        )
        self._decoder = msgspec.json.Decoder(struct)

    def texts(self, line: bytes) -> list[bytes]:
        """Return the JSON text of each field, `null` where the field is absent; of duplicates the last.

        Raises:
            MalformedError: the line is no JSON object.
        """
        try:
            row = self._decode(line)
        except RecursionError:
            raise MalformedError("json: nested too deeply") from None
        return [bytes(getattr(row, name)) for name in self._names]

    def _decode(self, line: bytes) -> object:
        try:
            return self._decoder.decode(line)
        except msgspec.ValidationError:
            raise MalformedError("json: not an object") from None
        except msgspec.DecodeError as error:
            if (repaired := without_lone_surrogates(line)) != line:
                return self._decode(repaired)
            raise MalformedError("json: " + str(error).removeprefix("JSON is malformed: ")) from None


def without_lone_surrogates(line: bytes) -> bytes:
    r"""Replace the escape of half a surrogate pair by that of U+FFFD.

    >>> without_lone_surrogates(rb'"\ud83d\ude00 \ud83d \\ud83d"')
    b'"\\ud83d\\ude00 \\ufffd \\\\ud83d"'
    """
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match["lone"] else match[0], line)


def convert(text: bytes, column: SqlType | None) -> tuple[Value, bool]:
    """Turn a JSON text into a value of the column's type; returns it and whether it fits.

    JSON null fits every type. For DATE and TIMESTAMP, and for the event time (None), texts and numbers are only
    unpacked; a whole column is converted at once later.
    """
    if text == b"null":
        return None, True
    value = json.loads(without_lone_surrogates(text)) if text[:1] not in b"[{" else None
    if column is SqlType.STRING:
        return (value if isinstance(value, str) else text.decode()), True
    result = _CONVERT[column](value)
    return result, result is not None


def _scalar(value: Value) -> Value:
    return value


def _boolean(value: Value) -> Value:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def _integer(limit: int) -> Callable[[Value], Value]:
    def convert_integer(value: Value) -> Value:
        if (isinstance(value, str) and _INTEGER.fullmatch(value)) or (isinstance(value, float) and value.is_integer()):
            value = int(value)
        fits = isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
        return value if fits else None

    return convert_integer


def _double(value: Value) -> Value:
    if isinstance(value, bool) or not (isinstance(value, int | float) or (value and _DECIMAL.fullmatch(value))):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if abs(number) != float("inf") else None


_CONVERT: dict[SqlType | None, Callable[[Value], Value]] = {
    SqlType.BOOLEAN: _boolean,
    SqlType.INT: _integer(_LIMITS[SqlType.INT]),
    SqlType.BIGINT: _integer(_LIMITS[SqlType.BIGINT]),
    SqlType.DOUBLE: _double,
    SqlType.DATE: _scalar,
    SqlType.TIMESTAMP: _scalar,
    None: _scalar,
}
