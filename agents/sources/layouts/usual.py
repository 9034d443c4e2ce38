"""Lines of a layout whose values are all of the usual sort, as a regular expression. Pure.

A line that matches fits the layout, and its values are where `elf.agents.sources.layouts.line` finds them: between the
groups of the expression, which follow each other without a gap. What does not match may fit all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from elf.agents.sources.layouts.kinds import WITH_PORT, Kind
from elf.agents.sources.layouts.program import Op, Program, Step

#: Notations of times that are read by columns, and the times of them that are.
CLF, ISO = "%d/%b/%Y:%H:%M:%S%f %z", "%Y-%m-%d%t%H:%M:%S%f%_%z%u"
_TIMES = {
    CLF: r"[0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4}",
    ISO: r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})",
}
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}"
_VALUES = {
    Kind.IP: rf"(?:{_IPV4}|-)",
    Kind.ADDR: rf"(?:{_IPV4}|-)",
    Kind.ADDRESSES: rf"(?:{_IPV4}|-)",
    Kind.IDENT: "-",
    Kind.USER: r"(?:-|[A-Za-z][A-Za-z0-9_@.-]*)",
    Kind.METHOD: "[A-Z]+",
    Kind.PROTOCOL: r"[A-Z]+/[0-9](?:\.[0-9])?",
    Kind.STATUS: "[0-9]{3}",
    Kind.INT: "(?:[0-9]+|-)",
    Kind.BYTES: "(?:[0-9]+|-)",
    Kind.NUMBER: r"(?:[0-9]+(?:\.[0-9]+)?|-)",
    Kind.HEX: "(?:[0-9a-f]+|-)",
    Kind.HOST: "(?:[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?|-)",
    Kind.REST: r"[^\n]*",
}
#: What a host may go on with in front of a port: the last colon of all this is the port's.
_PORT_RUN = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz:._%-")


class Usual(NamedTuple):
    """The usual lines of a layout.

    Attributes:
        pattern: of a line with its newline, as Polars takes it; each group begins where the one before ends.
        slots: of each slot which group it is; -1: of none.
        time: the notation of the time in each slot that has one.
    """

    pattern: str
    slots: tuple[int, ...]
    time: Mapping[int, str]


def usual_lines(program: Program) -> Usual | None:
    """Return what the usual lines of a layout are; None if it has fields of which nothing is usual."""
    gap, groups, slots, times = "", list[str](), [-1] * len(program.slots), dict[int, str]()
    for number, step in enumerate(program.steps):
        if step.op is Op.LITERAL:
            gap += re.escape(step.text.decode())
        elif step.op is Op.END:
            break
        else:
            value = _value(step, program.steps[number + 1 : number + 4])
            if value is None or (step.slot >= 0 and slots[step.slot] >= 0):
                return None
            if gap:
                groups.append(gap)
                gap = ""
            if step.slot >= 0:
                slots[step.slot] = len(groups)
                if step.kind is Kind.TIME:
                    times[step.slot] = step.notations[0].pattern
            groups.append(value)
    rest = "(?: [^\n]*)?" if program.is_open else ""
    return Usual(f"^{''.join(f'({group})' for group in groups)}{gap}{rest}\n$", tuple(slots), times)


def _value(step: Step, behind: tuple[Step, ...]) -> str | None:
    """Return the pattern of a field's usual values; None if there is none."""
    if step.op is not Op.FIELD or step.pads or step.cell or not behind:
        return None
    if behind[0].op not in (Op.LITERAL, Op.END):
        return None  # nothing but its own grammar tells where it ends
    if step.kind is Kind.TIME:
        return _TIMES.get(step.notations[0].pattern) if step.notations else None
    if step.kind in WITH_PORT and step.after[:1] == b":" and not _is_port(behind):
        return None
    made = _RUNS.get((step.kind, step.quoted))
    if made is not None:
        return made(step)
    if step.quoted and step.kind in (Kind.USER, Kind.IDENT):
        return None
    return _VALUES.get(step.kind)


def _is_port(behind: tuple[Step, ...]) -> bool:
    """Tell whether a colon and a number follow, and then something that neither of them nor a host goes on with."""
    if len(behind) < 3 or behind[0].text != b":" or behind[1].kind is not Kind.INT:
        return False
    return behind[2].op is Op.END or (behind[2].op is Op.LITERAL and behind[2].text[0] not in _PORT_RUN)


def _class(excluded: bytes) -> str:
    return "[^" + "".join(f"\\x{byte:02x}" for byte in sorted(set(excluded))) + "]"


def _quoted(step: Step) -> str:
    return _class(step.stops + b'\\\n"') + "*"


def _path(step: Step) -> str:
    return "/" + (_quoted(step) if step.quoted else _class(step.stops + bytes(range(32)) + b' "') + "*")


def _word(step: Step) -> str:
    others = step.stops + bytes(range(32)) + b" "
    return _class(others + b'"') + _class(others) + "*"


_RUNS: dict[tuple[Kind, bool], Callable[[Step], str]] = {
    (Kind.QUOTED, True): _quoted,
    (Kind.REQUEST, True): _quoted,
    (Kind.WORD, False): _word,
    (Kind.URI, True): _path,
    (Kind.URI, False): _path,
}
