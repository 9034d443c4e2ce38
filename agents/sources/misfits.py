"""What a rejected line, or a source whose lines are nearly all rejected, tells people: what would be right. Pure.

A wrong format looks like a web server that nobody visits: all is read, nothing waits, and results are empty. That is
not to be told from one bad line in a thousand by a look at one chunk, so the judge looks at runs of lines.
"""

from __future__ import annotations

from elf.agents.errors import ConfigError
from elf.agents.sources.format import Format, make_format, parse_chunk
from elf.agents.sources.json_lines import NO_COLUMN, JsonLines
from elf.agents.sources.times.zones import UTC

#: Fewer lines than this judge no source that ever had events: scanners send what no web server's log is ready for.
LINES_MIN = 20
#: Of a rejected line so much is looked at, and so many formats are named that it would have.
_LOOKED_AT_BYTES, _NAMED_MAX = 8 << 10, 3
NO_OBJECTS = "these lines are no JSON objects; say what they are with"


class Misfits:
    """Judges whether a source's lines are nearly all rejected: nine of ten; until again half of them are events.

    Lines that the pre-filter skipped are taken for good ones if the source had events: nobody looked at them, but the
    format was right once. If it never had one, they tell nothing: of lines in a wrong format, too, the pre-filter skips
    those without its texts.

    Args:
        had_events: any line of the source was ever an event. If none was, the first lines are judged however few.
    """

    def __init__(self, *, had_events: bool) -> None:
        self.prevail = False
        #: Lines of the run that the last judgement was made of, and how many were rejected.
        self.judged = (0, 0)
        self._had_events = had_events
        self._lines = self._rejected = 0

    def note(self, parsed: int, rejected: int, filtered: int = 0) -> bool:
        """Take note of lines that follow those before; return whether the judgement is another now."""
        self._lines += parsed + rejected + (filtered if self._had_events or parsed else 0)
        self._rejected += rejected
        if self._lines < self._enough():
            return False
        lines, bad = self.judged = self._lines, self._rejected
        self._lines = self._rejected = 0
        self._had_events = self._had_events or bad < lines
        before = self.prevail
        if bad * 10 >= lines * 9:
            self.prevail = True
        elif bad * 2 <= lines:
            self.prevail = False
        return self.prevail != before

    def _enough(self) -> int:
        if self.prevail:
            return max(1, min(LINES_MIN, self.judged[0]))
        return LINES_MIN if self._had_events else 1


def advice(format: Format, line: bytes, reason: str, section: str = "", *, quotes: bool = True) -> str:
    """Say of a rejected line, given with the reason, what would be right.

    Args:
        format: what it was taken for.
        line: the line, or its beginning.
        reason: why it was rejected.
        section: where a configuration has the source's settings; empty where there are options only.
        quotes: people may see the line.
    """
    format_option, time_option = (
        f"--{word}" + (f" ({word} under [{section}])" if section else "") for word in ("format", "time")
    )
    if reason == "time":
        if isinstance(format, JsonLines):
            return f"their field {format.time!r} is no time; name the field that has it with {time_option}"
        if format.name in ("ltsv", "logfmt"):
            return f"they have no time in a field that is known to have it; name that with {time_option}"
        return "their time is none"
    if reason == "no_header":
        return "no line before them names their columns"
    if reason == "header":
        return f"the header above them is none that {format.name!r} can be read by"
    if reason.startswith(NO_COLUMN):
        lacks = reason.removeprefix(NO_COLUMN)
        return f"these lines are not those of {format.name}: they have no {lacks}; read them with {format_option} json"
    if reason == "line_too_long":
        return "they are longer than 1 MiB"
    # Only here: agents without access logs do without them.
    from elf.agents.sources.catalogue import LAYOUTS, PAIRS
    from elf.agents.sources.layout_lines import LayoutLines
    from elf.agents.sources.pair_lines import PairLines

    names = [name for name, named in LAYOUTS.items() if not named.twin and name != format.name]
    names += [name for name in PAIRS if name != format.name]
    fitting = [name for name in names if _fits(name, line)]
    such = ", ".join(fitting[:_NAMED_MAX])
    if isinstance(format, JsonLines):
        return f"{NO_OBJECTS} {format_option}, such as {such or 'combined'}"
    if _fits("json", line):
        such = "json"
    wrong = f"these lines do not have the format {format.name!r}"
    misfit = (
        format.misfit(line.rstrip(b"\r\n")[:_LOOKED_AT_BYTES]) if isinstance(format, LayoutLines | PairLines) else None
    )
    if misfit is not None:
        wrong += f": this one {misfit.shown(line.rstrip() if quotes else b'')}"
    if such:
        return f"{wrong}; say what they are with {format_option}, such as {such}"
    return f"{wrong}; give the log_format (nginx) or LogFormat (Apache) that they are written with as {format_option}"


def _fits(name: str, line: bytes) -> bool:
    """Tell whether a line would be an event in one of the named formats, or at least an object where it is JSON."""
    try:
        format = make_format(name, zone=UTC)
    except ConfigError:
        return False
    parsed = parse_chunk(format, line.rstrip(b"\n") + b"\n", {})
    return bool(parsed.events.height) or any(reason == "time" for _, reason in parsed.rejects)
