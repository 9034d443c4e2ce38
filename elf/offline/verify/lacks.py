"""What a label says that a result lacks, as narrowly as the master can tell: whose events, of which event time. Pure.

The label of a window names agents that lack somewhere in it. The master answers any run of intervals, so the window is
halved where its label names something until the runs are single intervals, or too many questions were asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from elf.agents.completeness.runs import RunsAfter, union
from elf.offline.grid import Window

#: Questions about parts of one window; beyond them, what is left is taken as a whole.
QUESTIONS_MAX = 256
Label = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, order=True)
class Lack:
    """Events of [start_ms, end_ms) that a result may lack.

    Attributes:
        start_ms: begin of their event time.
        end_ms: its end.
        agent: whose; empty where it may be anybody's.
        certain: whether none of them is in, as far as the label tells; else some may be.
        why: the label's word.
    """

    start_ms: int
    end_ms: int
    agent: str
    certain: bool
    why: str

    def touches(self, agent: str, start_ms: int, end_ms: int) -> bool:
        """Whether events of an agent between two times, the end not included, may be lacking."""
        return self.agent in ("", agent) and self.start_ms < end_ms and start_ms < self.end_ms

    def within(self, window: Window) -> Lack | None:
        """Return the part that lies in a window."""
        start_ms, end_ms = max(self.start_ms, window[0]), min(self.end_ms, window[1])
        return dataclasses.replace(self, start_ms=start_ms, end_ms=end_ms) if start_ms < end_ms else None


def lacks_of(window: Window, label: Label, ask: Callable[[int, int], Label] | None, interval_ms: int) -> list[Lack]:
    """Find what a window lacks.

    Args:
        window: its event time.
        label: its label.
        ask: returns the label of a part of it; None if nobody can be asked.
        interval_ms: the shortest part there is.
    """
    budget = [QUESTIONS_MAX if ask is not None else 0]

    def find(start_ms: int, end_ms: int, label: Label) -> list[Lack]:
        if not announces(label):
            return []
        intervals = (end_ms - start_ms) // interval_ms
        if ask is None or intervals <= 1 or budget[0] < 2:
            return _lacks(start_ms, end_ms, label, max(1, intervals))
        budget[0] -= 2
        middle_ms = start_ms + intervals // 2 * interval_ms
        return find(start_ms, middle_ms, ask(start_ms, middle_ms)) + find(middle_ms, end_ms, ask(middle_ms, end_ms))

    return joined(find(*window, label))


def announces(label: Label) -> bool:
    """Whether a label says that something may be lacking."""
    few = label.get("reported", 0) < label.get("expected", 0)
    return bool(label.get("missing") or label.get("void") or label.get("gaps") or label.get("shed") or few)


def joined(lacks: Iterable[Lack]) -> list[Lack]:
    """Join lacks of one agent and kind that follow each other."""
    found: dict[tuple[str, bool, str], RunsAfter] = {}
    for each in lacks:
        kind = each.agent, each.certain, each.why
        found[kind] = (*found.get(kind, ()), (each.start_ms, each.end_ms))
    return [Lack(start_ms, end_ms, *kind) for kind, runs in sorted(found.items()) for start_ms, end_ms in union(runs)]


def _lacks(start_ms: int, end_ms: int, label: Label, intervals: int) -> list[Lack]:
    missing = label.get("missing") or []
    found = [Lack(start_ms, end_ms, str(agent), True, "missing") for agent in missing]
    if void := label.get("void"):
        found.append(Lack(start_ms, end_ms, "", void >= intervals, "void"))
    found += [Lack(start_ms, end_ms, "", False, word) for word in ("gaps", "shed") if label.get(word)]
    if not missing and label.get("reported", 0) < label.get("expected", 0):
        found.append(Lack(start_ms, end_ms, "", False, "unnamed agents"))
    return found
