"""Pasted log formats: nginx `log_format` and Apache `LogFormat` text to a layout of literals and fields.

Owns the grammar of the two directives and the mapping of their variables to column names and types. Pure text work;
`access_log` does the parsing of lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType

#: The formats with a name. Apache's `%l` (the ident user, in practice always "-") is read over.
COMMON = r'%h %l %u %t "%r" %>s %b'
COMBINED = COMMON + r' "%{Referer}i" "%{User-agent}i"'

#: Pseudo columns: where the event time is, in which notation. They never leave the parser.
TIME_LOCAL, TIME_ISO, TIME_EPOCH = "time_local", "time_iso8601", "msec"
TIMES = (TIME_LOCAL, TIME_ISO, TIME_EPOCH)
#: A field that is matched and thrown away.
SKIPPED = ""

_NGINX = {
    "body_bytes_sent": "bytes",
    "http_referer": "referer",
    "http_user_agent": "user_agent",
    "request_method": "method",
    "request_uri": "uri",
    "args": "query",
    "query_string": "query",
    "server_protocol": "protocol",
}
_APACHE = {
    "a": "remote_addr",
    "A": "server_addr",
    "B": "bytes",
    "b": "bytes",
    "D": "request_time_us",
    "h": "remote_addr",
    "H": "protocol",
    "I": "bytes_received",
    "k": "connection_requests",
    "l": SKIPPED,
    "L": "log_id",
    "m": "method",
    "O": "bytes_sent",
    "p": "server_port",
    "P": "pid",
    "q": "query",
    "r": "request",
    "R": "handler",
    "s": "status",
    "T": "request_time",
    "u": "remote_user",
    "U": "path",
    "v": "server_name",
    "V": "host",
    "X": "connection_status",
}
_APACHE_NAMED = {"i": "http_", "o": "sent_http_", "e": "env_", "n": "note_", "C": "cookie_"}
_TYPES = {
    "status": SqlType.INT,
    "server_port": SqlType.INT,
    "remote_port": SqlType.INT,
    "bytes": SqlType.BIGINT,
    "bytes_sent": SqlType.BIGINT,
    "bytes_received": SqlType.BIGINT,
    "request_length": SqlType.BIGINT,
    "request_time_us": SqlType.BIGINT,
    "connection": SqlType.BIGINT,
    "connection_requests": SqlType.BIGINT,
    "pid": SqlType.BIGINT,
    "request_time": SqlType.DOUBLE,
    "gzip_ratio": SqlType.DOUBLE,
}

_NGINX_DIRECTIVE = re.compile(r"\s*log_format\s+\S+(?:\s+escape=(?P<escape>\w+))?\s+(?P<body>.*?);?\s*", re.S)
_APACHE_DIRECTIVE = re.compile(
    r"\s*(?:LogFormat|CustomLog\s+\S+)\s+(?P<body>\".*\"|'.*')(?:\s+[\w=!-]+)*\s*", re.S | re.I
)
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.S)
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<bare>\w+))")
_PERCENT = re.compile(r"%(?:[!,\d]*)[<>]?(?:\{(?P<argument>[^}]*)\})?\^?(?P<letter>[A-Za-z%])")


@dataclass(frozen=True, slots=True)
class Field:
    """A place in the line that holds the value of a column (or of a time, or of nothing we keep)."""

    column: str

    @property
    def kind(self) -> SqlType:
        """The column's type."""
        return _TYPES.get(self.column, SqlType.STRING)


Token = str | Field


def parse_layout(text: str) -> tuple[Token, ...]:
    """Turn a pasted format (the directive, or only its string) into literals and fields, in order.

    Raises:
        ConfigError: it is no such format, or it holds no time that could be the event time.
    """
    body = _body(text)
    if "%" not in body and "$" not in body:
        raise ConfigError(
            f"{text!r} is no format; use json, combined, common, or paste an nginx log_format or LogFormat"
        )
    tokens = tuple(_merged(_nginx(body) if "$" in body else _apache(body)))
    columns = [token.column for token in tokens if isinstance(token, Field) and token.column]
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        raise ConfigError(f"the log format fills column {twice[0]!r} twice; leave one of the two out")
    if not set(TIMES) & set(columns):
        raise ConfigError("the log format has no time of the event; add [$time_local] (nginx) or %t (Apache) to it")
    for left, right in pairwise(tokens):
        if isinstance(left, Field) and isinstance(right, Field):
            raise ConfigError(f"nothing separates {left.column!r} from {right.column!r} in the log format")
    return tokens


def _body(text: str) -> str:
    """Take the format string out of a directive, or out of quotes, or as it is."""
    if directive := _NGINX_DIRECTIVE.fullmatch(text):
        if directive["escape"] == "json":
            raise ConfigError("this log_format writes JSON (escape=json); use format = 'json' instead")
        return "".join(_unquoted(single or double) for single, double in _QUOTED.findall(directive["body"]))
    body = directive["body"] if (directive := _APACHE_DIRECTIVE.fullmatch(text)) else text.strip()
    if quoted := _QUOTED.fullmatch(body):
        return _unquoted(quoted[1] or quoted[2] or "")
    return body.replace(r"\"", '"')


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"t": "\t", "n": "\n"}.get(match[1], match[1]), text)


def _nginx(body: str) -> Iterator[Token]:
    end = 0
    for match in _VARIABLE.finditer(body):
        yield body[end : match.start()]
        name = match["braced"] or match["bare"]
        yield Field(_NGINX.get(name, name))
        end = match.end()
    yield body[end:]


def _apache(body: str) -> Iterator[Token]:
    end = 0
    for match in _PERCENT.finditer(body):
        yield body[end : match.start()]
        yield from _percent(match["letter"], match["argument"])
        end = match.end()
    yield body[end:]


def _percent(letter: str, argument: str | None) -> Iterator[Token]:
    """Read one `%` directive."""
    if letter == "%":
        yield "%"
    elif letter == "t":
        if argument is not None:
            raise ConfigError(f"%{{{argument}}}t is not read; use %t, which has all of the time")
        yield from ("[", Field(TIME_LOCAL), "]")
    elif argument is not None and letter in _APACHE_NAMED:
        name = _APACHE_NAMED[letter] + argument.lower().replace("-", "_")
        yield Field(_NGINX.get(name, name))
    elif letter == "T" and argument in ("us", "ms"):
        yield Field(f"request_time_{argument}")
    elif letter in _APACHE:
        yield Field(_APACHE[letter])
    else:
        raise ConfigError(f"%{letter} in the log format is not known; see Apache's mod_log_config for the list")


def _merged(tokens: Iterator[Token]) -> Iterator[Token]:
    """Join neighbouring literals and leave empty ones out."""
    literal = ""
    for token in tokens:
        if isinstance(token, str):
            literal += token
            continue
        if literal:
            yield literal
        literal = ""
        yield token
    if literal:
        yield literal
