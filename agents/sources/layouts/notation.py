"""Our own notation of layouts, to which all others are translated.

`{column:kind}` is a field, `{:kind}` one that is read over, `{column:kind~}` one that is aligned to the right,
`{column:time:NOTATION}` a time, `{?...?}` a part that may be missing; ` ...` at the end: lines may go on. Everything
else is a literal; `{{` is a brace.
"""

from __future__ import annotations

import re

from elf.agents.errors import ConfigError, did_you_mean, nearest
from elf.agents.sources.layouts.kinds import KINDS, Kind
from elf.agents.sources.layouts.layout import Field, Layout, Part, Token, checked, notations_of

_OPEN_END = " ..."
_TOKEN = re.compile(
    r"\{(?P<column>[\w@.-]*):(?P<kind>[a-z]+)(?::(?P<notations>[a-z0-9|-]+))?(?P<pads>~?)\}"
    r"|\{\?(?P<part>.*?)\?\}|(?P<brace>\{\{)|(?P<wrong>\{)",
    re.S,
)


def read_layout(text: str) -> Layout:
    """Read a layout in our own notation.

    Raises:
        ConfigError: it is none, or ambiguous; says which field.
    """
    is_open = text.endswith(_OPEN_END)
    return checked(Layout(_tokens(text.removesuffix(_OPEN_END)), is_open))


def field(column: str, kind: str, pads: bool = False) -> Field:
    """Make a field of a kind as layouts write it: `word`, `time:clf`; raises ConfigError."""
    name, _, notations = kind.partition(":")
    if name == "time" and notations:
        return Field(column, Kind.TIME, notations_of(notations), pads)
    if name not in KINDS or notations:
        raise ConfigError(
            f"there is no kind {kind!r} of fields{did_you_mean(nearest(name, [*KINDS]))}; there are time:NOTATION, "
            + ", ".join(KINDS)
        )
    return Field(column, KINDS[name], (), pads)


def declared(text: str) -> Field:
    """Make a field of `column:kind`; raises ConfigError."""
    column, _, kind = text.partition(":")
    return field(column, kind)


def merged(tokens: list[Token]) -> tuple[Token, ...]:
    """Join literals that are side by side, and leave empty ones out."""
    found: list[Token] = []
    for token in tokens:
        if isinstance(token, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += token
        elif token != b"":
            found.append(token)
    return tuple(found)


def _tokens(text: str) -> tuple[Token, ...]:
    found: list[Token] = []
    end = 0
    for match in _TOKEN.finditer(text):
        found.append(text[end : match.start()].encode())
        end = match.end()
        if match["wrong"]:
            raise ConfigError(f"{text[match.start() : match.start() + 20]!r} in the layout is no {{column:kind}}")
        if match["brace"]:
            found.append(b"{")
        elif match["part"] is not None:
            found.append(Part(_tokens(match["part"])))
        else:
            kind = match["kind"] + (f":{match['notations']}" if match["notations"] else "")
            found.append(field(match["column"], kind, bool(match["pads"])))
    return merged([*found, text[end:].encode()])
