"""What a rejected line tells people: what it is, and what would be right. Pure.

It knows every format, so that who only reads JSON should not load it before a line is rejected.
"""

from __future__ import annotations

from elf.agents.sources.blocks import AHEAD
from elf.agents.sources.catalogue import COMBINED, OBJECT_WRAPPERS, WRAPPERS
from elf.agents.sources.format import Format, make_format, parse_chunk
from elf.agents.sources.json_lines import JSON, NO_COLUMN, NO_OBJECTS, JsonLines
from elf.agents.sources.layout_lines import LayoutLines
from elf.agents.sources.layouts.hosts import is_full_name
from elf.agents.sources.layouts.layout import TIME
from elf.agents.sources.layouts.misfit import Misfit
from elf.agents.sources.pair_lines import PairLines
from elf.agents.sources.recognition import best_of
from elf.agents.sources.times.fields import TIME_FIELD
from elf.agents.sources.times.zones import UTC
from elf.agents.sources.wrapped.wrappers import MESSAGE
from elf.agents.sources.wrapped_lines import WrappedLines

#: Of a rejected line so much is looked at, and so many formats are named that it would have.
_LOOKED_AT_BYTES, _NAMED_MAX = 8 << 10, 3
#: What entries of the journal begin with that are exported, a line a field.
_EXPORTED = b"__CURSOR="


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
        inner = format.inner if isinstance(format, WrappedLines) else format
        if isinstance(inner, JsonLines):
            known = next((each.time for each in best_of(line) if each.time), "")
            such = f", such as {known}" if known else ""
            return f"their field {inner.time!r} is no time; name the field that has it with {time_option}{such}"
        if isinstance(inner, PairLines):
            return f"they have no time in a field that is known to have it; name that with {time_option}"
        return "their time is none"
    if reason == AHEAD:
        admits = f"ahead_max under [{section}] admits" if section else "is admitted"
        return f"their times are further ahead of this machine's clock than {admits}: a clock or a time zone is wrong"
    if line.startswith(_EXPORTED):
        return f"they are of journalctl -o export; have it write -o json, and read that with {format_option} journald"
    if reason == "no_header":
        return "no line before them names their columns"
    if reason == "header":
        return f"the header above them is none that {format.name!r} can be read by"
    if reason.startswith(NO_COLUMN):
        lacks = reason.removeprefix(NO_COLUMN)
        return f"these lines are not those of {format.name}: they have no {lacks}; read them with {format_option} json"
    if reason == "line_too_long":
        return "they are longer than 1 MiB"
    wrapper = _taken_out_of(format, line, reason)
    found = best_of(line)[:_NAMED_MAX]
    such = ", ".join(wrapper + each.shown for each in found if wrapper + each.shown != format.name)
    if such and found[0].time not in ("", TIME_FIELD):
        such += f", and {time_option} {found[0].time}"
    if isinstance(format, JsonLines):
        return f"{NO_OBJECTS} {format_option}, such as {such or 'combined'}"
    if not such and _has_host_before_combined(line):
        such = f"'%v {COMBINED}'"
    if not such and _is_object_without_time(line):
        such = wrapper + JSON
    wrong = f"these lines do not have the format {format.name!r}"
    misfit = _misfit(format, wrapper, line.rstrip(b"\r\n")[:_LOOKED_AT_BYTES])
    if misfit is not None:
        wrong += f": this one {misfit.shown(line.rstrip() if quotes else b'')}"
    if such:
        return f"{wrong}; say what they are with {format_option}, such as {such}"
    return f"{wrong}; give the log_format (nginx) or LogFormat (Apache) that they are written with as {format_option}"


def _taken_out_of(format: Format, line: bytes, reason: str) -> str:
    """Return the wrapper that a line was taken out of before it was rejected, as it stands before other formats."""
    head, plus, _ = format.name.partition(", ")[0].rpartition("+")
    if not plus or not {*head.split("+")} <= {*WRAPPERS, *OBJECT_WRAPPERS} or _fits(head, line):
        return ""
    # A wrapper's time is read over where what stands in it has one.
    begins = (f"format:{MESSAGE}@0",) if head in OBJECT_WRAPPERS else (f"format:{TIME}@0", "format:what_is_read_over@0")
    is_inner_json = isinstance(format, WrappedLines) and isinstance(format.inner, JsonLines)
    return "" if reason in begins or (reason.startswith(JSON) and not is_inner_json) else head + plus


def _misfit(format: Format, wrapper: str, line: bytes) -> Misfit | None:
    """Say where a line, or what was taken out of a wrapper, stops to fit."""
    own = format.inner if isinstance(format, WrappedLines) and wrapper else format
    return own.misfit(line) if isinstance(own, LayoutLines | PairLines) else None


def _has_host_before_combined(line: bytes) -> bool:
    """Tell whether a line has a virtual host, without its port, before what `combined` has."""
    host, _, rest = line.partition(b" ")
    return is_full_name(host) and _fits("combined", rest)


def _is_object_without_time(line: bytes) -> bool:
    return any(reason == "time" for _, reason in parse_chunk(make_format(JSON), line.rstrip(b"\n") + b"\n", {}).rejects)


def _fits(name: str, line: bytes) -> bool:
    """Tell whether a line would be an event, or a part of one, in one of the named formats."""
    parsed = parse_chunk(make_format(name, zone=UTC), line.rstrip(b"\n") + b"\n", {})
    return not parsed.counters.rejected
