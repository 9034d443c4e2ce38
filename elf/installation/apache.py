"""Access logs in Apache's configuration: `CustomLog`, `TransferLog` and `LogFormat`, through all includes.

Takes the texts apart as Apache does: lines, words, quotes. Sections are passed through, whatever their condition: a log
of any virtual host or module is a log.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping

from elf.agents.errors import ConfigError
from elf.installation.access_logs import AccessLog, FoundLogs
from elf.installation.config_files import ConfigFiles, Place, included
from elf.installation.nginx import Directive

#: Where it is: Debian, Red Hat and others, built from source.
PATHS = ("/etc/apache2/apache2.conf", "/etc/httpd/conf/httpd.conf", "/usr/local/apache2/conf/httpd.conf")
#: Where Debian says what `${APACHE_LOG_DIR}` is.
_ENVIRONMENT = "envvars"
#: Formats that are in every configuration that comes with Apache, so that logs name them though a snippet does not.
_USUAL = ("combined", "common", "vhost_combined")
_CONTINUED = re.compile(r"\\\r?\n")
_WORD = re.compile(r"""\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s"'][^\s]*))""")
_ESCAPED_QUOTE = re.compile(r"\\([\"'\\])")
_DEFINED = re.compile(r"\$\{(\w+)\}")
_EXPORT = re.compile(r"^\s*(?:export\s+)?(\w+)=[\"']?([\w./$ {}-]*?)[\"']?\s*$", re.MULTILINE)
_SHELL = re.compile(r"\$\{?(\w+)\}?")
_STRFTIME = re.compile(r"(?:%[A-Za-z%])+")


def directives(text: str, file: str) -> Iterator[Directive]:
    """Yield the directives of a text; those that open or close a section have it in their first word: `<VirtualHost`.

    Raises:
        ConfigError: a quote does not end.
    """
    line = 1
    # A line that is continued counts as many as it has.
    for whole in re.split(r"(?<!\\)\n", text):
        began, line = line, line + whole.count("\n") + 1
        joined = _CONTINUED.sub(" ", whole).strip()
        if not joined or joined.startswith("#"):
            continue
        words, end = list[str](), 0
        while end < len(joined):
            word = _WORD.match(joined, end)
            if word is None:
                raise ConfigError(f"{file}:{began}: a quote that does not end")
            text_of = next(each for each in (word["double"], word["single"], word["bare"]) if each is not None)
            words.append(text_of if word["bare"] is not None else _ESCAPED_QUOTE.sub(r"\1", text_of))
            end = word.end()
            while end < len(joined) and joined[end].isspace():
                end += 1
        yield Directive(tuple(words), Place(file, began))


def find_logs(path: str, files: ConfigFiles) -> FoundLogs:
    """Find the access logs of the Apache whose main configuration this is.

    Raises:
        ConfigError: a text is none of Apache's, or more than a server has.
    """
    found, reading = FoundLogs("Apache"), _Reading(path, files)
    for directive in reading.directives(path):
        reading.take(directive)
    for directive in reading.logs:
        kind, target, *more = directive.words
        written, why = _target(target)
        written = os.path.join(reading.root, written)
        # `TransferLog` has the last format without a name; CustomLog names one, or has it itself.
        name = (
            "" if kind.lower() == "transferlog" else more[0] if more and "=" not in more[0].split("%")[0] else "common"
        )
        if why:
            found.left_out.append(f"{directive.place}: {target} {why}")
        else:
            format = reading.format_of(name)
            found.add(AccessLog(written, format, "", directive.place, name if name in reading.formats else ""))
    return found


class _Reading:
    """What directives say of logs."""

    def __init__(self, path: str, files: ConfigFiles) -> None:
        self.root = os.path.dirname(path)
        self.logs: list[Directive] = []
        self.formats: dict[str, str] = {}
        self._files = files
        environment = os.path.join(self.root, _ENVIRONMENT)
        self._defined = dict(_environment(files.read(environment))) if os.path.exists(environment) else {}

    def directives(self, path: str, place: Place | None = None, depth: int = 0) -> Iterator[Directive]:
        """Yield the directives of a file, with values in the place of what is defined, and included files in theirs."""
        for words, where in directives(self._files.read(path, place, depth), path):
            words = tuple(_DEFINED.sub(lambda name: self._defined.get(name[1], name[0]), word) for word in words)
            if words[0].lower() not in ("include", "includeoptional") or len(words) != 2:
                yield Directive(words, where)
                continue
            for each in included(words[1], self.root):
                for file in _files_below(each):
                    if words[0].lower() == "include" or os.path.exists(file):
                        yield from self.directives(file, where, depth + 1)

    def take(self, directive: Directive) -> None:
        first, *words = directive.words
        match first.lower(), words:
            case "serverroot", [root]:
                self.root = root
            case "define", [name, value]:
                self._defined[name] = value
            case "logformat", [text]:
                self.formats[""] = text
            case "logformat", [text, name]:
                self.formats[name] = text
            case (("customlog" | "globallog" | "transferlog"), [_, *_]):
                self.logs.append(directive)

    def format_of(self, name: str) -> str:
        """Return a format as a source has it; empty if the lines are to tell."""
        if name in self.formats:
            text = self.formats[name]
            return "" if text.lstrip().startswith("{") else text
        return name if name in _USUAL or "%" in name else ""


def _environment(text: str) -> Mapping[str, str]:
    """Return the variables that a shell script sets to plain texts; those that it uses of others are empty."""
    found: dict[str, str] = {}
    for match in _EXPORT.finditer(text):
        found[match[1]] = _SHELL.sub(lambda name: found.get(name[1], ""), match[2])
    return found


def _files_below(path: str) -> Iterator[str]:
    """Yield a file, or all files of a folder: Apache includes both."""
    if not os.path.isdir(path):
        yield path
        return
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in sorted(names))


def _target(target: str) -> tuple[str, str]:
    """Return the path, or glob, that a log goes to, and else why it goes to no file."""
    if target.startswith("syslog:"):
        return "", "goes to syslog, not to a file"
    if not target.startswith("|"):
        why = "is no file that can be followed" if target.startswith("/dev/") else ""
        why = why or ("has a variable that nothing defines" if "${" in target else "")
        return target, why
    try:
        words = shlex.split(target.lstrip("|$"))
    except ValueError:
        words = []
    if not words or os.path.basename(words[0]) != "rotatelogs":
        return "", "goes to a program, not to a file"
    options, path = words[1:], ""
    while options and not path:
        word = options.pop(0)
        if word in ("-L", "-p", "-n"):
            # `-L` names a link to the newest file; the others have a value, too.
            del options[:1]
        elif not word.startswith("-"):
            path = word
    if not path:
        return "", "goes to a program, not to a file"
    return (_STRFTIME.sub("*", path) if "%" in path else f"{path}.*"), ""
