"""The columns of a source whose lines name them, as a sample shows them; asked once, when a job is published.

A type is only given where every value seen fits it; the definition then freezes it (DESIGN section 4).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from elf.agents.errors import did_you_mean, nearest
from elf.agents.language.paths import Step, column_of, steps_of
from elf.agents.language.types import SqlType
from elf.agents.sources.format import Format, parse_chunk
from elf.agents.sources.json_lines import JsonLines
from elf.agents.sources.lines import clean, valid_utf8
from elf.agents.sources.typed_texts import type_of

if TYPE_CHECKING:
    from elf.agents.sources.wrapped_lines import WrappedLines

#: Lines looked at; more would delay a publish and rarely tell more.
SAMPLE_LINES_MAX = 10_000
#: Lines of which the paths are looked at that might have been meant.
_SHOWN_LINES_MAX = 100
#: Stands for no value.
_ABSENT: object = object()


@dataclass(frozen=True, slots=True)
class Inferred:
    """What a sample tells.

    Attributes:
        columns: types of the asked names that were found.
        missing: why an asked name has no type, in words for a person.
        fields: every top-level name seen, and what is in the objects that were asked for, sorted; for hints.
    """

    columns: dict[str, SqlType]
    missing: dict[str, str]
    fields: tuple[str, ...]


class NamesColumns(Protocol):
    """A format of texts whose lines, or headers, name their columns; no JSON."""

    def names_in(self, sample: bytes) -> Sequence[str]:
        """Return the names of all columns that some lines have, each once."""


def infer(format: Format, sample: bytes, names: Iterable[str]) -> Inferred:
    """Find the types of columns of a format whose lines name them; see `infer_columns`."""
    if isinstance(format, JsonLines):
        return infer_columns(sample, names, format.unwrap)
    # Not loaded by an agent that reads only JSON.
    from elf.agents.sources.wrapped_lines import WrappedLines

    if isinstance(format, WrappedLines):
        return _infer_wrapped(format, sample, list(names))
    return infer_texts(format, sample, names)


def _infer_wrapped(format: WrappedLines, sample: bytes, names: Sequence[str]) -> Inferred:
    """Find the types of columns of lines that stand in others."""
    around = {name: kind for name, kind in format.wrapper.columns.items() if name in names}
    texts, others = format.texts_in(sample), [name for name in names if name not in around]
    inner = infer(cast(Format, format.inner), texts, others)
    fields = tuple(sorted({*inner.fields, *format.wrapper.columns}))
    return Inferred({**inner.columns, **around}, inner.missing, fields)


def infer_texts(format: Format, sample: bytes, names: Iterable[str]) -> Inferred:
    """Find the types of columns of texts: as for JSON, if all texts that are something are of it."""
    first = b"".join(line + b"\n" for line in sample.split(b"\n", SAMPLE_LINES_MAX)[:SAMPLE_LINES_MAX])
    fields = cast(NamesColumns, format).names_in(first)
    asked = [name for name in names if name in fields]
    texts = parse_chunk(format, first, dict.fromkeys(asked, SqlType.STRING)).events
    found = {name: type_of(texts[name]) for name in asked}
    known = {name: kind for name, kind in found.items() if kind is not None}
    missing = {name: _missing(name, fields, texts.height, is_null=name in found) for name in names if name not in known}
    return Inferred(known, missing, tuple(sorted(fields)))


def infer_columns(sample: bytes, names: Iterable[str], unwrap: str = "") -> Inferred:
    """Find the types of JSON fields.

    All booleans: BOOLEAN. All integers of 64 bits: BIGINT. All numbers: DOUBLE. Everything else is STRING: texts (times
    and dates, too: SQL converts them), mixtures, objects and lists as their JSON text.

    Args:
        sample: some whole lines; those that are no JSON objects are left out.
        names: fields asked for, or paths to values in them.
        unwrap: the path to texts that are objects themselves, which paths lead into; empty: there are none.
    """
    rows, names = _rows(sample), list(names)
    if unwrap:
        rows = [_unwrapped(row, steps_of(unwrap)) for row in rows]
    paths = {name: steps_of(name) for name in names}
    kinds: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            kinds.setdefault(name, set()).add(_kind(value))
        for name, steps in paths.items():
            if len(steps) > 1 and name not in row and (found := _at(row, steps)) is not _ABSENT:
                kinds.setdefault(name, set()).add(_kind(found))
    beside = {name for asked in paths.values() if len(asked) > 1 for name in _beside(rows, asked)}
    fields = tuple(sorted({*kinds, *beside}))
    columns: dict[str, SqlType] = {}
    missing: dict[str, str] = {}
    for name in names:
        seen = kinds.get(name, set()) - {type(None)}
        if seen:
            columns[name] = _type_of(seen)
        else:
            missing[name] = _missing(name, fields, len(rows), is_null=name in kinds)
    return Inferred(columns, missing, fields)


def _missing(name: str, fields: Sequence[str], lines: int, *, is_null: bool) -> str:
    """Say why a name has no type."""
    if is_null and lines:
        return f"column {name!r} is null in all {lines} lines looked at; declare its type in [columns]"
    if lines:
        return f"no column {name!r} in the {lines} lines looked at{did_you_mean(nearest(name, fields))}"
    return f"there is no line yet that shows the type of {name!r}; declare it in [columns]"


def _at(row: object, steps: Sequence[Step]) -> object:
    """Return the value at a path, `_ABSENT` if there is none."""
    for step in steps:
        if isinstance(step, str) and isinstance(row, dict):
            row = row.get(step, _ABSENT)
        elif isinstance(step, int) and isinstance(row, list) and step < len(row):
            row = row[step]
        else:
            return _ABSENT
    return row


def _unwrapped(row: dict[str, object], steps: tuple[Step, ...]) -> dict[str, object]:
    """Return a row with the object that a text in it is, if it is one."""
    holder, text = _at(row, steps[:-1]), _at(row, steps)
    if isinstance(holder, dict) and isinstance(text, str):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            holder[steps[-1]] = msgspec.json.decode(text, type=dict[str, object])
    return row


def _beside(rows: Sequence[dict[str, object]], steps: tuple[Step, ...]) -> set[str]:
    """Return the paths to what is in the object that a path ends in, as far as the first lines show it."""
    objects = (_at(row, steps[:-1]) for row in rows[:_SHOWN_LINES_MAX])
    return {column_of((*steps[:-1], name)) for found in objects if isinstance(found, dict) for name in found}


def _rows(sample: bytes) -> Sequence[dict[str, object]]:
    decoder = msgspec.json.Decoder(dict[str, object])
    rows = []
    for line in valid_utf8(clean(sample).data)[0].split(b"\n", SAMPLE_LINES_MAX)[:SAMPLE_LINES_MAX]:
        try:
            rows.append(decoder.decode(line))
        except (msgspec.DecodeError, RecursionError):
            continue
    return rows


def _kind(value: object) -> type:
    """Return a value's type; an integer beyond 64 bits is a double, as it is for whoever reads the column."""
    kind = type(value)
    return float if isinstance(value, int) and not -(2**63) <= value < 2**63 else kind


def _type_of(seen: set[type]) -> SqlType:
    if seen == {bool}:
        return SqlType.BOOLEAN
    if seen == {int}:
        return SqlType.BIGINT
    return SqlType.DOUBLE if seen <= {int, float} else SqlType.STRING
