"""Access logs as a web server's configuration has them: where they are, and what their lines are. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from elf.installation.config_files import Place

LOGS_MAX = 200
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
#: Of a path that is made a glob: what may stand for anything.
_MAGIC = re.compile(r"[*?\[]")
_JSON_TIME = re.compile(r'"([\w@.-]{1,64})"\s*:\s*"?\$(?:\{)?(?:time_iso8601|msec|time_local)\b')


class AccessLog(NamedTuple):
    """A log that a server writes.

    Attributes:
        path: of it, or a glob where the server puts something of the request into the name.
        format: as a source's setting has it; empty: the lines are to tell.
        time: of objects, the field with the time; empty if it is not known.
        place: where the configuration says so.
        known_as: the format's name there.
    """

    path: str
    format: str
    time: str
    place: Place
    known_as: str


@dataclass(slots=True)
class FoundLogs:
    """What a configuration says of access logs: those that can be followed, and why others cannot."""

    server: str
    logs: list[AccessLog] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    #: Paths of other logs, such as errors: a glob must not match them.
    others: set[str] = field(default_factory=set)

    def add(self, log: AccessLog) -> None:
        """Add a log, once, of so many at most."""
        if any(each.path == log.path for each in self.logs):
            return
        if not log.path.isprintable():
            self.left_out.append(f"{log.place}: a log whose path is no text that can be written into settings")
            return
        if log.format.encode(errors="replace").decode() != log.format:
            log = log._replace(format="")
        if len(self.logs) == LOGS_MAX:
            self.left_out.append(f"{log.place}: more than {LOGS_MAX} logs; name those that you want with --source")
        if len(self.logs) < LOGS_MAX:
            self.logs.append(log)


def as_glob(path: str, values: dict[str, str]) -> str:
    """Put values in the place of a path's variables, and `*` in that of those that change with each request."""
    parts: list[str] = []
    end = 0
    for match in _VARIABLE.finditer(path):
        value = values.get(match[1] or match[2])
        parts += [_escaped(path[end : match.start()]), "*" if value is None else _escaped(value)]
        end = match.end()
    parts.append(_escaped(path[end:]))
    return re.sub(r"\*+", "*", "".join(parts)) if end else path


def json_time(log_format: str) -> str:
    """Return the field of objects that a `log_format` puts the time into; empty if there is none."""
    found = _JSON_TIME.search(log_format)
    return found[1] if found else ""


def _escaped(text: str) -> str:
    return _MAGIC.sub(lambda match: f"[{match[0]}]", text)
