"""Access logs in nginx's configuration: `access_log`, `log_format` and `set`, through all includes.

Takes the texts apart as nginx does: words, quotes, blocks, comments. What a block means is not asked: a log of any
server, location or `if` is a log. Blocks of Lua are passed over.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from elf.agents.errors import ConfigError
from elf.installation.access_logs import AccessLog, FoundLogs, as_glob, json_time
from elf.installation.config_files import ConfigFiles, Place, included

#: Where it is: Debian and most others, built from source, FreeBSD.
PATHS = ("/etc/nginx/nginx.conf", "/usr/local/nginx/conf/nginx.conf", "/usr/local/etc/nginx/nginx.conf")
#: What is logged where nothing is said, and no log at all.
_DEFAULT_LOG = "/var/log/nginx/access.log"
_NO_FILES = ("/dev/null", "/dev/stdout", "/dev/stderr", "/proc/self/fd/1", "/proc/self/fd/2")
_TOKEN = re.compile(
    r"""(?P<blank>\s+|\#[^\n]*)|(?P<mark>[;{}])|"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'"""
    r"""|(?P<bare>(?:\\.|\$\{|[^\s;{}"'\\])(?:\\.|\$\{|[^\s;{\\])*)""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\([\"'\\trn])")
_CONTROLS = {"t": "\t", "r": "\r", "n": "\n"}
#: Of Lua: what braces may stand in, and braces.
_LUA = re.compile(r"""--[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\[\[.*?\]\]|[{}]""", re.DOTALL)


class Directive(NamedTuple):
    """A directive's words, and where it begins; of a block those before it."""

    words: tuple[str, ...]
    place: Place


def directives(text: str, file: str) -> Iterator[Directive]:
    """Yield all directives of a text, those of blocks behind their block's own.

    Raises:
        ConfigError: nginx would not take it, either.
    """
    words, line, began, end, depth = list[str](), 1, 1, 0, 0
    while end < len(text):
        token = _TOKEN.match(text, end)
        if token is None:
            raise ConfigError(f"{file}:{line}: a quote that does not end, or a \\ at the end")
        if token["mark"] is None and token["blank"] is None:
            began = began if words else line
            words.append(_word(token))
        line, end = line + token[0].count("\n"), token.end()
        if token["mark"] == "}":
            depth -= 1
            if depth < 0 or words:
                raise ConfigError(f"{file}:{line}: a }} that nothing opens, or a ; that is missing before it")
        elif token["mark"]:
            if words:
                yield Directive(tuple(words), Place(file, began))
            if token["mark"] == "{" and words and words[0].endswith("_by_lua_block"):
                behind = _behind_block(text, end)
                line, end = line + text.count("\n", end, behind), behind
            elif token["mark"] == "{":
                depth += 1
            words = []
    if depth or words:
        raise ConfigError(f"{file}:{line}: it ends within a block or a directive")


def find_logs(path: str, files: ConfigFiles, default: str = _DEFAULT_LOG) -> FoundLogs:
    """Find the access logs of the nginx whose main configuration this is.

    Raises:
        ConfigError: a text is none of nginx's, or more than a server has.
    """
    found, reading = FoundLogs("nginx"), _Reading()
    for directive in _with_includes(path, os.path.dirname(path), files):
        reading.take(directive)
    found.others = reading.others
    prefix = "/usr/share/nginx" if path.startswith("/etc/") else os.path.dirname(os.path.dirname(path))
    if not reading.logs and not reading.is_off and os.path.exists(default):
        found.add(AccessLog(default, "combined", "", Place(path, 1), "combined, nginx's default"))
    for words, place in reading.logs:
        written = os.path.join(prefix, words[1])
        why = _why_left_out(words[1], words[2:])
        logged = as_glob(written, reading.values)
        if not why and logged != written:
            others = [each for each in found.others if fnmatch.fnmatch(each, logged)]
            why = f"follows the request, and {logged} matches {others[0]}, too" if others else ""
        if why:
            found.left_out.append(f"{place}: {words[1]} {why}")
            continue
        name = words[2] if len(words) > 2 and "=" not in words[2] and words[2] != "gzip" else "combined"
        found.add(AccessLog(logged, *reading.format_of(name), place, name))
    return found


class _Reading:
    """What directives say of logs."""

    def __init__(self) -> None:
        self.logs: list[Directive] = []
        self.values: dict[str, str] = {}
        self.others: set[str] = {"/var/log/nginx/error.log"}
        self.is_off = False
        self._formats: dict[str, Sequence[str]] = {}
        self._changing: set[str] = set()

    def take(self, directive: Directive) -> None:
        match directive.words:
            case ("access_log", "off", *_):
                self.is_off = True
            case ("access_log", _, *_):
                self.logs.append(directive)
            case ("error_log", path, *_):
                self.others.add(path)
            case ("log_format", name, _, *_):
                self._formats[name] = directive.words[2:]
            case ("set", name, value) if name.startswith("$"):
                self._set(name[1:], value)

    def _set(self, name: str, value: str) -> None:
        """Remember a variable that has one value wherever it is set, and that of no request."""
        if "$" in value or self.values.get(name, value) != value or name in self._changing:
            self.values.pop(name, None)
            self._changing.add(name)
        else:
            self.values[name] = value

    def format_of(self, name: str) -> tuple[str, str]:
        """Return a format as a source has it, and the field with the time if its lines are objects."""
        words = self._formats.get(name)
        if words is None:
            return (name if name == "combined" else "", "")
        escape = words[0] if words[0].startswith("escape=") else ""
        text = "".join(words[1:] if escape else words)
        if escape == "escape=json" or text.lstrip().startswith("{"):
            return "json", json_time(text)
        if escape == "escape=none":
            return f"log_format {name} {escape} '{_quoted(text)}'", ""
        return text, ""


def _with_includes(
    path: str, folder: str, files: ConfigFiles, place: Place | None = None, depth: int = 0
) -> Iterator[Directive]:
    """Yield the directives of a file, with those of included files in the place of the include."""
    for directive in directives(files.read(path, place, depth), path):
        if directive.words[0] != "include" or len(directive.words) != 2:
            yield directive
            continue
        for each in included(directive.words[1], folder):
            yield from _with_includes(each, folder, files, directive.place, depth + 1)


def _word(token: re.Match[str]) -> str:
    text = next(part for part in (token["double"], token["single"], token["bare"]) if part is not None)
    return _ESCAPE.sub(lambda match: _CONTROLS.get(match[1], match[1]), text)


def _behind_block(text: str, begin: int) -> int:
    """Return where a block of Lua ends."""
    depth = 1
    for token in _LUA.finditer(text, begin):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if not depth:
            return token.end()
    return len(text)


def _why_left_out(path: str, options: Sequence[str]) -> str:
    if path.startswith(("syslog:", "memory:")):
        return f"goes to {path.partition(':')[0]}, not to a file"
    if path in _NO_FILES:
        return "is no file that can be followed"
    if any(each == "gzip" or each.startswith("gzip=") for each in options):
        return "is written compressed, which cannot be followed while it grows"
    return ""


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
