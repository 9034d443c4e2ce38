"""Parts of URLs, as java.net.URI takes them apart.

A text that is no URI for Java (a space, `|`, `%` without two digits) gives NULL, as Spark does with ANSI mode off.
"""

from __future__ import annotations

import re

import polars as pl

from elf.agents.language.functions import url_escapes
from elf.agents.language.functions.registry import Call, refuse, special
from elf.agents.language.patterns import constant_text
from elf.agents.language.time_texts import by_column
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value

STRING = SqlType.STRING

# RFC 2396 as java.net.URI reads it; `other` are all visible characters beyond ASCII.
_OTHER = r"[^\x00-\x{9f}\p{Z}]"
_ESCAPED = r"%[0-9A-Fa-f]{2}"
_MARKS = r"A-Za-z0-9_\-!.~'()*"
_PATH = rf"(?:[{_MARKS}:@&=+$,;/]|{_ESCAPED}|{_OTHER})*"
_QUERY = rf"(?:[{_MARKS};/?:@&=+$,\[\]]|{_ESCAPED}|{_OTHER})*"
_USER = rf"(?:[{_MARKS};:&=+$,]|{_ESCAPED}|{_OTHER})*"
_REGISTRY = rf"(?:[{_MARKS}$,;:@&=+]|{_ESCAPED}|{_OTHER})+"
_IPV6 = r"\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.~-]+)?\]"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*"
_FIRST = rf"(?:[{_MARKS}@&=+$,;]|{_ESCAPED}|{_OTHER})"
_AUTHORITY = rf"(?:{_USER}@)?{_IPV6}(?::[0-9]*)?|{_REGISTRY}"
_WITH_AUTHORITY = rf"//(?P<authority>{_AUTHORITY})(?P<path>(?:/{_PATH})?)"
_EMPTY_AUTHORITY = rf"//(?P<rooted>/{_PATH})"
_ABSOLUTE = rf"(?P<absolute>/(?:(?:{_FIRST}|:){_PATH})?)"
_RELATIVE = rf"(?P<relative>(?:{_FIRST}+(?:/{_PATH})?)?)"
_OPAQUE = rf"(?P<opaque>(?:[{_MARKS};?:@&=+$,\[\]]|{_ESCAPED}|{_OTHER}){_QUERY})"
# An authority may be empty before a path, a query or a fragment, not before nothing.
_URI = (
    rf"\A(?:(?:(?P<protocol>{_SCHEME}):)?(?:{_EMPTY_AUTHORITY}|{_WITH_AUTHORITY}|{_ABSOLUTE})"
    rf"(?:\?(?P<query>{_QUERY}))?(?:#(?P<ref>{_QUERY}))?"
    rf"|{_RELATIVE}(?:\?(?P<query2>{_QUERY}))?(?:#(?P<ref2>{_QUERY}))?"
    rf"|(?P<protocol2>{_SCHEME}):{_OPAQUE}(?:#(?P<ref3>{_QUERY}))?"
    rf"|(?:(?P<protocol3>{_SCHEME}):)?//(?P<empty>)(?:\?(?P<query3>{_QUERY})(?:#(?P<ref4>{_QUERY}))?|#(?P<ref5>{_QUERY})))\z"
)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?"
_LAST_LABEL = r"[A-Za-z](?:[A-Za-z0-9\-]*[A-Za-z0-9])?"
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[0-9]{1,2}|0[0-9]{2})"
_HOST = rf"\A(?:{_USER}@)?((?:{_BYTE}\.){{3}}{_BYTE}|(?:{_LABEL}\.)+{_LAST_LABEL}\.?|{_LABEL}\.?|{_IPV6})(?::[0-9]*)?\z"

_PARTS: dict[str, tuple[str, ...]] = {
    "HOST": ("authority",),
    "PATH": ("path", "absolute", "relative", "rooted", "empty"),
    "QUERY": ("query", "query2", "query3"),
    "REF": ("ref", "ref2", "ref3", "ref4", "ref5"),
    "PROTOCOL": ("protocol", "protocol2", "protocol3"),
    "AUTHORITY": ("authority",),
}


@special("parse_url", "try_parse_url", least=2, most=3)
def parse_url(call: Call) -> Value:
    """HOST, PATH, QUERY, REF, PROTOCOL or AUTHORITY of a URL, or one parameter of its query."""
    text, part = call.take_only(0, STRING).expr, constant_text(call.arguments[1], "the part")
    if len(call.arguments) == 3:
        call.take_only(2, STRING)
    null = call.value(pl.lit(None, dtype=pl.String), STRING)
    if part is None:
        return null
    if part not in _PARTS:
        raise call.refused(f"parse_url takes one of {', '.join(_PARTS)}, in capitals")
    fields = text.str.extract_groups(_URI).struct
    found = pl.coalesce([fields.field(name) for name in _PARTS[part]])
    if part == "HOST":
        found = found.str.extract(_HOST)
    if len(call.arguments) == 2:
        return call.value(found, STRING)
    key = constant_text(call.arguments[2], "the key")
    if part != "QUERY" or key is None:
        return null
    if not re.fullmatch(r"[A-Za-z0-9_-]+", key):
        raise call.refused("a key of parse_url is written with letters, digits, _ and -", "Spark reads it as a pattern")
    return call.value(found.str.extract(rf"(?:&|\A){key}=([^&]*)"), STRING)


@special("try_url_decode", least=1)
def try_url_decode(call: Call) -> Value:
    """`%41` and `+` decoded; NULL where an escape is broken, U+FFFD where the bytes are no UTF-8."""
    return call.value(by_column(url_escapes.decode, call.take(0, STRING).expr, pl.String()), STRING)


refuse("one broken escape in the data would stop the whole query in Spark; use try_url_decode", "url_decode")
