r"""Paths to values in objects: `a.b`, `a['b.c']`, `a[0]`. Pure.

A column of a source of objects is a path, or the name of a field at the top of the object, which wins: `a.b` is the
field of this name where there is one, and else what is in the object `a` under `b`.

>>> steps_of("request.headers['User-Agent'][0]")
('request', 'headers', 'User-Agent', 0)
>>> steps_of("no path.")
('no path.',)
>>> column_of(("a", "b.c", "it's", 0))
"a['b.c']['it\\'s'][0]"
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Step = str | int

#: Items of arrays have numbers below this.
INDEX_END = 2**31
_QUOTED = r"\['(?P<quoted>(?:[^'\\]|\\.)+)'\]"
_FIRST = re.compile(rf"(?P<plain>[^.\[\]]+)|{_QUOTED}", re.S)
_NEXT = re.compile(rf"\.(?P<plain>[^.\[\]]+)|{_QUOTED}|\[(?P<index>0|[1-9][0-9]{{0,9}})\]", re.S)
#: Names that need no quotes.
_PLAIN = re.compile(r"\w+")


def steps_of(column: str) -> tuple[Step, ...]:
    """Return the steps that lead to a column's value; one, the name itself, if it is written as no path."""
    steps: list[Step] = []
    at, pattern = 0, _FIRST
    while at < len(column):
        found = pattern.match(column, at)
        if found is None:
            return (column,)
        groups = found.groupdict()
        if groups.get("index"):
            steps.append(int(groups["index"]))
        else:
            steps.append(groups["plain"] or re.sub(r"\\(.)", r"\1", groups["quoted"], flags=re.S))
        at, pattern = found.end(), _NEXT
    too_far = any(isinstance(step, int) and step >= INDEX_END for step in steps)
    return (column,) if too_far or not steps else tuple(steps)


def column_of(steps: Sequence[Step]) -> str:
    """Return the column that is read by some steps, as every part of elf calls it."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += "['" + step.replace("\\", r"\\").replace("'", r"\'") + "']"
    return text
