"""Commands that each name the one before, as blocks of a chain: what was asked for, confirmed and seen. Pure.

A block is a version of a job: its number is its place, and an option of it that no other one has tells which it is.

- There is one chain: whoever says at whatever time which block is at a place says the same.
- A block is in it once, and follows the one that it names.
- What was confirmed is in it, where the answer said, and after all that was confirmed before it was asked for.
- In the end the disks hold it: the same log at every member, and nothing confirmed is beyond its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

#: Sentences of a check.
SENTENCES_MAX = 10
#: The block that every chain begins with, and its place: it was published, not asked for.
FIRST, FIRST_PLACE = 0, 1


@dataclass(slots=True)
class Block:
    """A command that somebody asked for, to come after block `before`, which was at `place` - 1 then."""

    mark: int
    place: int
    before: int
    asked_s: float
    #: When it was confirmed; None: nobody knows whether it was decided.
    confirmed_s: float | None = None


@dataclass
class Chain:
    """All that is known of a run."""

    blocks: dict[int, Block] = field(default_factory=dict)
    #: Place -> block -> who was the first to say so.
    seen: dict[int, dict[int, str]] = field(default_factory=dict)
    #: Disk -> the last place that it holds.
    ends: dict[str, int] = field(default_factory=dict)
    #: Publication, position and term of a group's log -> what is there -> whose disk says so.
    entries: dict[tuple[bytes, int, int], dict[bytes, str]] = field(default_factory=dict)
    #: Publication and the place that is applied -> the state made of it -> whose disk says so.
    states: dict[tuple[bytes, int], dict[bytes, str]] = field(default_factory=dict)

    def ask(self, place: int, before: int, now_s: float) -> Block:
        """Make the next block."""
        mark = len(self.blocks) + 1
        block = self.blocks[mark] = Block(mark, place, before, now_s)
        return block

    def confirmed(self) -> int:
        """Return how many blocks were confirmed."""
        return sum(block.confirmed_s is not None for block in self.blocks.values())

    def see(self, place: int, mark: int, who: str) -> None:
        """Somebody says that a block is at a place."""
        self.seen.setdefault(place, {}).setdefault(mark, who)


def check_chain(chain: Chain) -> list[str]:
    """Check a run that has ended; returns sentences about what is wrong."""
    checks = (_forks, _misplaced, _lost, _overtaken, _unlike)
    return [sentence for check in checks for sentence in list(check(chain))[:SENTENCES_MAX]]


def _forks(chain: Chain) -> Iterator[str]:
    for place, marks in sorted(chain.seen.items()):
        if len(marks) > 1:
            yield f"place {place} has several blocks: " + ", ".join(f"{mark} ({who})" for mark, who in marks.items())


def _misplaced(chain: Chain) -> Iterator[str]:
    places: dict[int, int] = {}
    for place, marks in sorted(chain.seen.items()):
        for mark in marks:
            if places.setdefault(mark, place) != place:
                yield f"block {mark} is at {places[mark]} and at {place}"
            if (mark, place) == (FIRST, FIRST_PLACE):
                continue
            block = chain.blocks.get(mark)
            if block is None:
                yield f"block {mark} at {place} was never asked for"
            elif block.place != place or block.before not in chain.seen.get(place - 1, {block.before: ""}):
                yield f"block {mark} at {place} does not follow block {block.before} at {block.place - 1}"


def _lost(chain: Chain) -> Iterator[str]:
    end = max(chain.ends.values(), default=0)
    for block in chain.blocks.values():
        if block.confirmed_s is not None and (block.place > end or block.mark not in chain.seen.get(block.place, {})):
            yield f"block {block.mark} was confirmed at {block.confirmed_s:.2f} s and is not at {block.place}"


def _overtaken(chain: Chain) -> Iterator[str]:
    confirmed = sorted(
        (block for block in chain.blocks.values() if block.confirmed_s is not None), key=lambda each: each.place
    )
    for at, block in enumerate(confirmed):
        for later in confirmed[at + 1 :]:
            if later.confirmed_s is not None and later.confirmed_s < block.asked_s:
                yield f"block {block.mark} is before {later.mark}, which was confirmed before it was asked for"


def _unlike(chain: Chain) -> Iterator[str]:
    for (_, position, term), bodies in chain.entries.items():
        if len(bodies) > 1:
            yield f"entry {position} of term {term} is another one at {' and '.join(bodies.values())}"
    for (_, applied), states in chain.states.items():
        if len(states) > 1:
            yield f"what was made of all entries through {applied} differs at {' and '.join(states.values())}"
