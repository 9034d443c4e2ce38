"""Layouts as people have them: pasted from a server's configuration, or in our own notation."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Sequence

from elf.agents.errors import ConfigError
from elf.agents.sources.layouts.apache import read_apache
from elf.agents.sources.layouts.directives import apache_directive, is_directive, nginx_directive, without_quotes
from elf.agents.sources.layouts.haproxy import read_haproxy
from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.layout import Field, Layout, Token, checked
from elf.agents.sources.layouts.nginx import read_nginx
from elf.agents.sources.layouts.notation import merged, read_layout

_HAPROXY = re.compile(r"\s*log-format\s+(?P<body>.*?)\s*", re.S)
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.S)
_OWN = re.compile(r"\{[\w@.-]*:[a-z]+[^{}]*\}")
#: What looks as if it was of our notation.
_OF_APACHE = re.compile(r"%!?[\d,]*[<>]?\{[^}]*\}\^?[A-Za-z]")
_OF_HAPROXY = re.compile(r"%(?:\{[^}]*\})?(?:ci|cp|ST|TR|Ta|ft|tsc|hr|hs)\b")


def is_layout(text: str) -> bool:
    """Tell whether a text is meant as a layout, not as the name of a format."""
    return "$" in text or "%" in text or _OWN.search(text) is not None or is_directive(text)


@functools.lru_cache(maxsize=256)
def pasted(text: str) -> Layout:
    """Read a layout: nginx's `log_format`, Apache's `LogFormat`, HAProxy's `log-format`, or one in our notation.

    Args:
        text: the directive, with what may stand around it, or only its text.

    Raises:
        ConfigError: it is none of these, or ambiguous.
    """
    if (log_format := nginx_directive(text)) is not None:
        return read_nginx(log_format.text, log_format.escape)
    if directive := _HAPROXY.fullmatch(text):
        return read_haproxy(_text_of(directive["body"]))
    if (of_apache := apache_directive(text)) is not None:
        return read_apache(of_apache)
    body = without_quotes(text.strip())
    if _OWN.search(_OF_APACHE.sub("", body)) is not None and "$" not in body:
        return read_layout(body)
    if "$" in body:
        return read_nginx(body)
    return read_haproxy(body) if _OF_HAPROXY.search(body) else read_apache(body)


def wrapped(outer: Layout, inners: Sequence[Layout], others: Collection[Field] = ()) -> list[Layout]:
    """Return a wrapper's layout around others; raises ConfigError if that is ambiguous.

    Args:
        outer: the wrapper's.
        inners: of lines that stand in it.
        others: fields of other lines of the source: of columns whose types are theirs, there is none around lines.
    """
    columns = {field.column for inner in inners for field in inner.fields()}
    around = {field.column: field.type for field in outer.fields()}
    columns |= {field.column for field in others if around.get(field.column, field.type) is not field.type}
    return [checked(inner.within(outer, columns)) for inner in inners]


def imitated(layout: Layout) -> Layout | None:
    """Return a layout as servers write it that imitate the logs of others; None if that is the same, or ambiguous.

    Traefik, for one, writes a hyphen without the quotes around what there is, and escapes nothing: an agent that others
    fields follow ends at the last quote behind which these fit.
    """
    tokens, has_any = list[Token](layout.tokens), False
    for place in range(1, len(tokens) - 1):
        before, token, behind = tokens[place - 1 : place + 2]
        if not (isinstance(token, Field) and token.kind in (Kind.QUOTED, Kind.WORD)):
            continue
        if not (isinstance(before, bytes) and isinstance(behind, bytes)):
            continue
        if before.endswith(b'"') and behind.startswith(b'"'):
            if token.column == "user_agent" and place < len(tokens) - 2:
                tokens[place] = token._replace(kind=Kind.LOOSE)
            else:
                bare = token._replace(kind=Kind.QTEXT)
                tokens[place - 1 : place + 2] = before[:-1], bare, behind[1:]
            has_any = True
    try:
        return checked(layout._replace(tokens=merged(tokens))) if has_any else None
    except ConfigError:
        return None


def _text_of(body: str) -> str:
    """Take a text out of its quotes, if it has some around it."""
    if quoted := _QUOTED.fullmatch(body):
        return _unescaped(quoted[1] or quoted[2] or "")
    return body.replace(r"\"", '"')


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"t": "\t", "n": "\n"}.get(match[1], match[1]), text)
