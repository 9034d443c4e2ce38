"""What audits have found, and what follows from it. Pure.

A parent believes what it has measured itself, and nobody's word on somebody else. A child whose claim is not the sum of
the snapshots has altered it, or was handed something altered. It is asked, and looks at what its own children claimed
to it in the same way. If it finds nothing, it is shut out. If it names somebody, has forgotten or does not answer, it
is excused, a few times: it is watched meanwhile, so that one who lies is back here within as many intervals.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeVar

from elf.agents.audits.comparison import Outcome

#: So often a child whose claims were wrong may say that it was not it.
EXCUSES_MAX = 2
#: Claims that came so long after an excuse may be of before it.
UNDERWAY_MS = 1_000
NEVER_MS = -(1 << 62)
#: So many audits in a row that one agent has made impossible are said to people.
SILENCES_SAID = 8
#: Most excuses, silences and findings remembered; of more the oldest go.
REMEMBERED_MAX = 1_024
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finding:
    """Who was found to alter what it merges, in whose words.

    `by`: the address of the agent that has found it; "": this one.
    """

    address: str
    name: str
    by: str = ""


class Findings:
    """What the audits of one agent have come to."""

    def __init__(self) -> None:
        #: How many audits ended how, and how many claims were wrong without their child being shut out.
        self.counts = {outcome.value: 0 for outcome in Outcome} | {"skipped": 0, "excused": 0}
        self._excuses: OrderedDict[tuple[bytes, str], tuple[int, int]] = OrderedDict()
        self._silent: OrderedDict[tuple[bytes, str], int] = OrderedDict()
        self._found: OrderedDict[tuple[bytes, str], Finding] = OrderedDict()

    def is_excused(self, tree: bytes, child: str, came_ms: int) -> bool:
        """Tell whether a claim that came at some time was on its way when its child was last excused."""
        return came_ms <= self._excuses.get((tree, child), (0, NEVER_MS))[1] + UNDERWAY_MS

    def must_go(self, tree: bytes, child: str, named: str | None, now_ms: int) -> bool:
        """Decide on a child, by its address, whose claim was wrong: whether it is shut out.

        Args:
            tree: the job's.
            child: its address.
            named: what it answered: the address of who has altered what it was handed, "" for nobody; None: it did not
                answer, or could not.
            now_ms: when it did.
        """
        times, _ = self._excuses.get((tree, child), (0, 0))
        if named == "" or times >= EXCUSES_MAX:
            return True
        self.counts["excused"] += 1
        _put(self._excuses, (tree, child), (times + 1, now_ms))
        return False

    def shut(self, tree: bytes, finding: Finding) -> None:
        """Remember who was shut out, or was by somebody else."""
        _put(self._found, (tree, finding.address), finding)

    def has_shut(self, tree: bytes, address: str) -> bool:
        """Tell whether somebody is shut out of a tree, as far as is known here."""
        return (tree, address) in self._found

    def forget(self, tree: bytes) -> None:
        """The tree is no more."""
        for known in (self._excuses, self._silent, self._found):
            for place in [place for place in known if place[0] == tree]:
                del known[place]

    def ended(self, tree: bytes, outcome: Outcome, silent: str = "") -> None:
        """Count an audit; `silent`: whose snapshot it could not have."""
        self.counts[outcome.value] += 1
        if silent:
            _put(self._silent, (tree, silent), self._silent.get((tree, silent), 0) + 1)

    def shown(self, tree: bytes, agent: str) -> None:
        """Take note that an agent has shown what it had signed."""
        self._silent.pop((tree, agent), None)

    def silent(self) -> list[tuple[bytes, str]]:
        """Return tree and id of the agents whose snapshots audits could not have, again and again."""
        return [place for place, times in self._silent.items() if times >= SILENCES_SAID]

    def found(self) -> list[tuple[bytes, Finding]]:
        """Return tree and finding, of all who are shut out."""
        return [(tree, finding) for (tree, _), finding in self._found.items()]


def _put(known: OrderedDict[tuple[bytes, str], T], place: tuple[bytes, str], value: T) -> None:
    known[place] = value
    known.move_to_end(place)
    while len(known) > REMEMBERED_MAX:
        known.popitem(last=False)
