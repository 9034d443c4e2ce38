"""Directives of servers' configurations that have a layout in them, and what their words say. Pure.

People paste what they find: comments, the blocks around it, texts in several quotes, lines that go on.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from elf.agents.errors import ConfigError

_NGINX_WORD = re.compile(
    r"\#[^\n]*|(?P<end>[;{}])|'(?P<single>(?:[^'\\]|\\.)*)'|\"(?P<double>(?:[^\"\\]|\\.)*)\"|"
    r"(?P<bare>(?:\\.|\$\{|[^\s;{}\\])(?:\\.|\$\{\w+\}|[^\s;{\\])*)",
    re.S,
)
_NGINX_ESCAPE = re.compile(r"\\(['\"\\trn])")
_NGINX = re.compile(r"(?:^|[\s;{}])log_format\s")
_ESCAPES = ("default", "json", "none")
#: Of Apache: a line, and its words.
_APACHE = re.compile(r"^[ \t]*(?P<name>LogFormat|CustomLog|TransferLog)[ \t]+(?P<words>.*)$", re.I | re.M)
_APACHE_WORD = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|(\S+)")
_APACHE_ESCAPE = re.compile(r"\\([\"'\\])")
_CONTROLS = {"t": "\t", "r": "\r", "n": "\n"}


class LogFormat(NamedTuple):
    """nginx's `log_format`.

    Attributes:
        text: the layout.
        escape: how values are escaped: `default`, `json` or `none`.
    """

    text: str
    escape: str


def is_directive(text: str) -> bool:
    """Tell whether a text has a directive in it that says a layout."""
    return _NGINX.search(text) is not None or _APACHE.search(text) is not None


def nginx_directive(text: str) -> LogFormat | None:
    """Return the `log_format` in a piece of a configuration; None if there is none.

    Raises:
        ConfigError: there are several, or it is none.
    """
    if _NGINX.search(text) is None:
        return None
    found: list[list[str]] = []
    words: list[str] = []
    for match in _NGINX_WORD.finditer(text):
        if match["end"]:
            found.append(words)
            words = []
        elif not match[0].startswith("#"):
            words.append(_nginx_text(match))
    formats = [each for each in (*found, words) if each[:1] == ["log_format"]]
    if len(formats) != 1:
        names = ", ".join(each[1] for each in formats if len(each) > 1)
        raise ConfigError(f"there are several log_formats ({names}); give the one that the file is written with")
    has_escape = len(formats[0]) > 2 and formats[0][2].startswith("escape=")
    escape = formats[0][2].removeprefix("escape=") if has_escape else "default"
    layout = "".join(formats[0][3 if has_escape else 2 :])
    if escape not in _ESCAPES or not layout:
        raise ConfigError("this is no log_format; it has a name, maybe escape=default, json or none, and a text")
    return LogFormat(layout, escape)


def apache_directive(text: str) -> str | None:
    """Return the layout of the `LogFormat` or `CustomLog` in a piece of a configuration; None if there is none.

    Raises:
        ConfigError: there are several, or it has no layout.
    """
    found = list(_APACHE.finditer(re.sub(r"\\\r?\n", "", text)))
    if not found:
        return None
    if len(found) > 1:
        raise ConfigError("there are several LogFormats; give the one that the file is written with")
    # The first word of the others is the file's name.
    place = 0 if found[0]["name"].lower() == "logformat" else 1
    words = list(_APACHE_WORD.finditer(found[0]["words"]))[place : place + 1]
    layout = _apache_text(words[0]) if words else ""
    if "%" not in layout:
        said = f"this {found[0]['name']} has no format in it"
        raise ConfigError(f"{said}; give the LogFormat with the nickname {layout!r}" if layout else said)
    return layout


def without_quotes(text: str) -> str:
    """Take the text of a directive out of its quotes, of which it may have several, and undo what stands for others."""
    pieces = list(_NGINX_WORD.finditer(text.removesuffix(";")))
    is_whole = len(pieces) == 1 and (pieces[0]["single"] or pieces[0]["double"]) is not None
    if pieces and pieces[0][0] != "" and (is_whole or all(each["single"] is not None for each in pieces)):
        return "".join(map(_nginx_text, pieces))
    return text.replace(r"\"", '"').replace(r"\t", "\t")


def _nginx_text(word: re.Match[str]) -> str:
    text = next(part for part in (word["single"], word["double"], word["bare"]) if part is not None)
    return _NGINX_ESCAPE.sub(lambda match: _CONTROLS.get(match[1], match[1]), text)


def _apache_text(word: re.Match[str]) -> str:
    text = next(part for part in word.groups() if part is not None)
    text = _APACHE_ESCAPE.sub(r"\1", text) if word[3] is None else text
    return text.replace(r"\t", "\t").replace(r"\n", "\n")
