"""Values of fields: where each ends, and whether it is of its kind. Pure; it defines what the kernel does.

A value is found in one pass from its beginning: nothing is tried twice, and nothing is anything up to the next space.
`-` alone is null. LINES section 2.1 has the grammar.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

from elf.agents.sources.layouts.hosts import (
    is_full_name,
    is_hidden,
    is_ip,
    is_ipv6,
    is_name,
    is_no_host,
    is_peer,
    is_port,
    is_socket,
    is_upstream,
)
from elf.agents.sources.layouts.kinds import EXPECTED, LISTS, WITH_PORT, Kind
from elf.agents.sources.layouts.misfit import Misfit
from elf.agents.sources.layouts.program import Step
from elf.agents.sources.times.notations import read_time

_PORT_RUN = re.compile(rb"\[[^\]]*\]|[0-9A-Za-z:._%-]*")
#: Items of lists, by what comes behind these, and is in none. Between brackets, addresses may have their own.
_ITEM_BEFORE = {
    closing: re.compile(rb'[^ ,"\x00-\x1f' + re.escape(bytes([closing])) + b"]*") for closing in b"})|; "
} | {ord("]"): re.compile(rb'(?:\[[^\]\x00-\x1f]*\])?[^ ,"\]\x00-\x1f]*')}
_CLOSINGS = b"]})|;"
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.S)
_PROTOCOL = rb"[A-Z]+/[0-9](?:\.[0-9])?"
_BARE_REQUEST = re.compile(rb"[^ \x00-\x1f]+ [^ \x00-\x1f]+ " + _PROTOCOL)
_QUOTED_CELL = re.compile(rb'"[^"]*+(?:""[^"]*+)*+"')
#: A quote, and a backslash, may be escaped.
_USER = re.compile(rb'(?:\\["\\]|[^\x00-\x1f\[\]"])*+')
_BRACED = re.compile(rb"\{([^}]*)\}")
_URI = re.compile(rb"/.*|\*|[A-Za-z][A-Za-z0-9+.-]*://.*", re.S)
_CLOCK = re.compile(rb"[0-9]:[0-9][0-9]")
_HOST_PORT = re.compile(rb"(.*):[0-9]{1,5}", re.S)
_ENTIRE = {
    Kind.IDENT: rb"(?!localhost$)[A-Za-z][A-Za-z0-9_-]*",
    Kind.METHOD: rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+",
    Kind.PROTOCOL: _PROTOCOL,
    Kind.STATUS: rb"[0-9]{3}|0",
    Kind.INT: rb"[+-]?[0-9]+",
    Kind.BYTES: rb"[+-]?[0-9]+",
    Kind.NUMBER: rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    Kind.DURATION: rb"[+-]?[0-9]+(?:\.[0-9]+)?(?:ns|us|\xc2\xb5s|\xce\xbcs|ms|s|m|h)?",
    Kind.HEX: rb"[0-9a-fA-F]+",
    Kind.STREAM: rb"stdout|stderr",
    Kind.PART: rb"[PF]",
}
_PATTERNS = {kind: re.compile(pattern) for kind, pattern in _ENTIRE.items()}
#: Kinds whose value may be nothing where no space ends it.
_MAY_BE_EMPTY = frozenset({Kind.WORD, Kind.QUOTED, Kind.URI, Kind.HOST, Kind.REQUEST, Kind.USER, Kind.TEXT})
#: Control bytes but the tab.
_CONTROL = bytes(byte for byte in range(32) if byte != 9)
#: Between the items of lists.
_RETRIED, _REDIRECTED, _COMMA = b", ", b" : ", b","


class Value(NamedTuple):
    """A value of a line.

    Attributes:
        begin: where its text begins; -1 if it is null.
        end: where its text ends.
        next: where the line goes on.
        ms: of a time, as `elf.agents.sources.times.notations.read_time` has it.
    """

    begin: int
    end: int
    next: int
    ms: int | None = None


def read_value(step: Step, line: bytes, at: int, has_ident: bool) -> Value:
    """Read a field's value in a line.

    Args:
        step: the field's.
        line: without its end.
        at: where the value begins.
        has_ident: the line names an ident, so that a user's name is one word.

    Raises:
        Misfit: there is no value of this kind.
    """
    if step.pads:
        while line.startswith(b" ", at):
            at += 1
    if step.cell:
        return _cell(step, line, at)
    if step.may_lack and (at == len(line) or line[at] in step.stops):
        return Value(-1, -1, at)
    reader = _READERS.get(step.kind)
    if reader is not None:
        return reader(step, line, at)
    if step.kind is Kind.USER and not step.quoted:
        return _user(step, line, at, has_ident)
    return _run(step, line, at)


def run_end(step: Step, line: bytes, at: int) -> int:
    """Return where a value ends that knows nothing of itself: at its quote, at what may follow, at the line's end.

    An escape between quotes takes the next byte; outside of them control bytes but the tab end it, too.
    """
    found = _run_pattern(step.stops, step.quoted).match(line, at)
    assert found is not None
    return found.end()


@functools.lru_cache(maxsize=1024)
def _run_pattern(stops: bytes, quoted: bool) -> re.Pattern[bytes]:
    if not quoted:
        return re.compile(b"[^" + re.escape(stops + _CONTROL) + b"]*")
    others = b"[^" + re.escape(stops + b"\\") + b"]*"
    return re.compile(others + rb"(?:\\(?:.|\Z)" + others + b")*", re.S)


def _misfit(step: Step, at: int) -> Misfit:
    return Misfit(at, step.shown, EXPECTED[step.kind])


def _made(line: bytes, begin: int, end: int, at: int) -> Value:
    return Value(-1, -1, at) if line[begin:end] == b"-" else Value(begin, end, at)


def _run(step: Step, line: bytes, at: int) -> Value:
    """Read a value that ends at what may follow it."""
    end = run_end(step, line, at)
    if step.kind in WITH_PORT and step.after[:1] == b":":
        found = _PORT_RUN.match(line, at)
        assert found is not None
        colon = -1 if found[0].startswith(b"[") else found[0].rfind(b":")
        end = found.end() if colon < 0 else at + colon
    value = line[at:end]
    if (value == b"-" and step.kind is not Kind.BYTES) or (value == b"-1" and step.kind is Kind.STATUS):
        return Value(-1, -1, end)
    if not value:
        if step.kind not in _MAY_BE_EMPTY or (not step.quoted and step.after[:1] in (b" ", b"")):
            raise _misfit(step, at)
        return Value(-1, -1, end) if step.kind is Kind.REQUEST else Value(at, end, end)
    if not _is_of(step, value):
        raise _misfit(step, at)
    if step.kind in WITH_PORT and value.startswith(b"[") and value.endswith(b"]"):
        return Value(at + 1, end - 1, end)
    return Value(at, end, end)


def _is_of(step: Step, value: bytes) -> bool:
    """Tell whether a value that is not nothing is of its kind."""
    kind = step.kind
    if kind in _PATTERNS:
        return (kind is Kind.BYTES and value == b"-") or _PATTERNS[kind].fullmatch(value) is not None
    if kind is Kind.WORD:
        return not value.startswith(b'"')
    if kind is Kind.IP:
        return is_ip(value) or is_socket(value)
    if kind is Kind.ADDR:
        return is_ip(value) or is_socket(value) or is_full_name(value) or is_no_host(value)
    if kind is Kind.HOST:
        return is_ip(value) or is_name(value) or value == b"_" or _is_host_and_port(value) or _is_server_name(value)
    if kind is Kind.URI:
        return _URI.fullmatch(value) is not None or is_peer(value)
    return True


def _is_host_and_port(value: bytes) -> bool:
    found = _HOST_PORT.fullmatch(value)
    # Without brackets, an IPv6 address and a port cannot be told apart.
    return found is not None and (is_name(found[1]) or (is_ip(found[1]) and not is_ipv6(found[1])))


def _is_server_name(value: bytes) -> bool:
    """Tell whether nginx may have a server of this name: of all hosts of a domain, or by a regular expression."""
    if value.startswith(b"~"):
        return len(value) > 1
    name = value.removeprefix(b"*").removeprefix(b".")
    return (name != value and is_name(name)) or (value.endswith(b".*") and is_name(value[:-2]))


def _cell(step: Step, line: bytes, at: int) -> Value:
    """Read a value of CSV; nothing, or `-`, is null but of a text."""
    begin = at
    if line.startswith(b'"', at):
        found = _QUOTED_CELL.match(line, at)
        if found is None or not (found.end() == len(line) or line[found.end()] in step.stops):
            raise _misfit(step, at)
        begin, end, after = at + 1, found.end() - 1, found.end()
    else:
        ended = _run_pattern(step.stops, False).match(line, at)
        assert ended is not None
        end = after = ended.end()
    is_bracketed = end - begin > 1 and line[begin] == ord("[") and line[end - 1] == ord("]")
    if is_bracketed and (step.kind is Kind.TIME or step.kind in WITH_PORT):
        begin, end = begin + 1, end - 1
    value = line[begin:end]
    if step.kind is Kind.TIME:
        ms = _first_time(step, line[:end], begin)
        if ms is None or ms[1] != end:
            raise _misfit(step, at)
        return Value(begin, end, after, ms[0])
    if (step.kind is not Kind.TEXT and value in (b"", b"-")) or (step.kind is Kind.STATUS and value == b"-1"):
        return Value(-1, -1, after)
    if not _is_of(step, value):
        raise _misfit(step, at)
    return Value(begin, end, after)


def _user(step: Step, line: bytes, at: int, has_ident: bool) -> Value:
    end = line.find(step.after, at) if step.after else len(line)
    value = line[at : max(at, end)]
    if value == b"-" or value == b'""':
        return _made(line, at, end, end)
    words = value.split(b" ")
    if not value or _USER.fullmatch(value) is None or _is_address(value):
        raise _misfit(step, at)
    if len(words) > 1 and (has_ident or not all(map(_is_of_a_name, words))):
        raise _misfit(step, at)
    return Value(at, end, end)


def _is_of_a_name(word: bytes) -> bool:
    """Tell whether a word may be one of several of a user's name."""
    begins = word[:1].isalpha() or word[:1] >= b"\x80"
    return begins and not is_peer(word) and _CLOCK.search(word) is None


def _is_address(value: bytes) -> bool:
    head, colon, port = value.rpartition(b":")
    return is_ip(value) or (bool(colon) and is_port(port) and is_ip(head))


def _rest(step: Step, line: bytes, at: int) -> Value:
    return _made(line, at, len(line), len(line)) if at < len(line) else Value(-1, -1, at)


def _time(step: Step, line: bytes, at: int) -> Value:
    found = _first_time(step, line, at)
    if found is not None:
        return Value(at, found[1], found[1], found[0])
    raise Misfit(at, step.shown, f"a time such as {' or '.join(notation.example for notation in step.notations)}")


def _first_time(step: Step, line: bytes, at: int) -> tuple[int, int] | None:
    """Read a time of the first notation that fits; returns it, in ms, and where it ends."""
    for notation in step.notations:
        found = read_time(notation, line, at, step.stops)
        if found is not None and (found[1] == len(line) or line[found[1]] in step.stops):
            return found
    return None


def _between_quotes(step: Step, line: bytes, at: int) -> Value:
    found = _QUOTED.match(line, at)
    if found is not None:
        return _made(line, at + 1, found.end() - 1, found.end())
    if line.startswith(b"-", at) and (at + 1 == len(line) or line[at + 1] in step.stops):
        return Value(-1, -1, at + 1)
    raise _misfit(step, at)


def _braced(step: Step, line: bytes, at: int) -> Value:
    found = _BRACED.match(line, at)
    if found is None:
        raise _misfit(step, at)
    return _made(line, at + 1, found.end() - 1, found.end())


def _request(step: Step, line: bytes, at: int) -> Value:
    if step.quoted:
        return _run(step, line, at)
    found = _BARE_REQUEST.match(line, at)
    if found is not None:
        return Value(at, found.end(), found.end())
    if line.startswith(b"-", at) and (at + 1 == len(line) or line[at + 1] in step.stops):
        return Value(-1, -1, at + 1)
    raise _misfit(step, at)


def _query(step: Step, line: bytes, at: int) -> Value:
    end = run_end(step, line, at)
    if end == at or line[at] != 63:
        if end > at:
            raise _misfit(step, at)
        return Value(-1, -1, end)
    return Value(at + 1, end, end) if end > at + 1 else Value(-1, -1, end)


def _list(step: Step, line: bytes, at: int) -> Value:
    """Read items joined by `, ` (a retry) or ` : ` (an internal redirect); of addresses also by a comma alone."""
    place, item = at, _ITEM_BEFORE[next((byte for byte in _CLOSINGS if byte in step.stops), ord(" "))]
    while True:
        found = item.match(line, place)
        assert found is not None
        if found[0] != b"-" and not _ITEMS[step.kind](found[0]):
            raise _misfit(step, place)
        place = found.end()
        joints = (_RETRIED, _COMMA) if step.kind is Kind.ADDRESSES else (_RETRIED, _REDIRECTED)
        joint = next((joint for joint in joints if line.startswith(joint, place)), None)
        if joint is None:
            return _made(line, at, place, place)
        place += len(joint)


_ITEMS: dict[Kind, Callable[[bytes], bool]] = {
    Kind.ADDRESSES: lambda item: is_peer(item) or is_hidden(item),
    Kind.UPSTREAMS: is_upstream,
    Kind.STATUSES: lambda item: re.fullmatch(rb"[0-9]{3}|0", item) is not None,
    Kind.NUMBERS: lambda item: _PATTERNS[Kind.NUMBER].fullmatch(item) is not None,
}
_READERS: dict[Kind, Callable[[Step, bytes, int], Value]] = {
    Kind.REST: _rest,
    Kind.TIME: _time,
    Kind.QTEXT: _between_quotes,
    Kind.QREQUEST: _between_quotes,
    Kind.BRACED: _braced,
    Kind.REQUEST: _request,
    Kind.QUERY: _query,
    **dict.fromkeys(LISTS, _list),
}
