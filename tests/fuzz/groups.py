"""Members of a root group that know the secret and lie: any sequence of valid messages leaves a member's machine sound.

What it applies must still be one log: gapless, ascending, each place once. See `tests.fuzz.machines` for the inputs.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable

import msgspec

from elf.overlay import messages
from elf.overlay.errors import DecodeError, NotJoinedError, OverlayError
from elf.overlay.group.effects import Apply, GroupEffect, Save, Tell
from elf.overlay.group.machine import RootGroup
from elf.overlay.group.messages import Entry, GroupAppend, GroupBehind, GroupGone, GroupMessage, Kind, Place, Seat
from elf.overlay.group.messages import encode_seats as encoded
from elf.overlay.group.state import GroupState
from elf.overlay.ids import Contact
from tests.fuzz.examples import draw, kinds
from tests.fuzz.machines import APP, BETWEEN, LENGTH, ME, NOW_MS, PEERS

NAMES = {"me": ME, "x": PEERS[0], "y": PEERS[1], "z": PEERS[2]}


def sequences(rng: random.Random, count: int) -> list[bytes]:
    """Return sequences of drawn messages whose fields often fit each other."""
    # Entries are what there is most to lie about.
    some = [*kinds(GroupMessage), *[GroupAppend] * 8]
    return [
        BETWEEN.join(messages.encode(_fit(draw(rng.choice(some), rng), rng)) for _ in range(rng.randint(2, LENGTH)))
        for _ in range(count)
    ]


def _fit(message: GroupMessage, rng: random.Random) -> GroupMessage:
    """Choose fields from few values, so that messages refer to the same members, terms and places."""
    choices: dict[str, Callable[[], object]] = {
        "app": lambda: APP,
        "term": lambda: rng.randrange(1, 5),
        "candidate": lambda: rng.choice("xyz"),
        "voter": lambda: rng.choice("xyz"),
        "member": lambda: rng.choice("xyz"),
        "leader": lambda: rng.choice("xyz"),
        "to": lambda: rng.choice(["me", "me", "me", "x"]),
        "last": lambda: _place(rng),
        "after": lambda: _place(rng),
        "through": lambda: rng.randrange(9),
        "decided": lambda: rng.choice([0, 0, 0, 1, 2, 8]),
        "granted": lambda: rng.random() < 0.8,
    }
    fields = {name: make() for name, make in choices.items() if name in message.__struct_fields__}
    if isinstance(message, GroupAppend):
        after, term = fields["after"], fields["term"]
        assert isinstance(after, Place) and isinstance(term, int)
        fields["entries"] = _entries(after, max(term, after.term), rng)
        fields["term"] = max(term, after.term)
    fitted: GroupMessage = msgspec.structs.replace(message, **fields)
    return fitted


def _place(rng: random.Random) -> Place:
    index = rng.choice([1, 1, 1, 2, 2, 3, 4])
    return Place(1 if index == 1 else rng.choice([1, 1, 2]), index)


def _entries(after: Place, term: int, rng: random.Random) -> tuple[Entry, ...]:
    entries, last = [], after
    for _ in range(rng.randrange(5)):
        last = Place(rng.choice([last.term, last.term, term]), last.index + 1)
        kind = rng.choice(list(Kind))
        seats = [Seat(name, NAMES[name].address, rng.random() < 0.7) for name in rng.sample(list(NAMES), 3)]
        entries.append(Entry(last, kind, encoded(seats) if kind is Kind.SEATS else bytes([rng.randrange(3)])))
    return tuple(entries)


def play(data: bytes) -> None:
    """Feed one sequence to a member, which now and then proposes something and loses links.

    Raises:
        DecodeError: it holds not one message of a group.
    """
    rng = random.Random(data)
    member = _Member(rng)
    heard = 0
    for part in data.split(BETWEEN)[: 2 * LENGTH]:
        with contextlib.suppress(DecodeError):
            message = messages.decode(part)
            if isinstance(message, GroupMessage) and not isinstance(message, GroupBehind | GroupGone):
                heard += 1
                member.hear(rng.choice(PEERS), message)
    if not heard:
        raise DecodeError("no message")


class _Member:
    """A machine whose disk and runtime answer at once."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._now_ms, self._applied = rng, NOW_MS, Place(1, 1)
        seats = tuple(Seat(name, contact.address, name != "z") for name, contact in NAMES.items())
        state = GroupState(term=1, applied=self._applied, seats=seats[: rng.randint(1, 4)])
        self._machine = RootGroup(APP, "me", state, random.Random(1), NOW_MS)

    def hear(self, sender: Contact, message: GroupMessage) -> None:
        self._carry(self._machine.on_message(sender, msgspec.structs.replace(message, app=APP), self._now_ms))
        self._now_ms += self._rng.choice([0, 1, 600, 20_000])
        chance = self._rng.random()
        if chance < 0.3:
            self._carry(self._machine.on_tick(self._now_ms))
        elif chance < 0.4:
            self._carry(self._machine.on_lost(self._rng.choice(PEERS), self._now_ms))
        elif chance < 0.6:
            with contextlib.suppress(NotJoinedError):
                self._carry(self._machine.propose(b"mine", self._now_ms)[1])
        elif chance < 0.65:
            with contextlib.suppress(OverlayError):
                self._carry(self._machine.change(self._machine.view(self._now_ms).seats[:-1], self._now_ms))
        elif chance < 0.7:
            self._carry(self._machine.hand_over("x", self._now_ms))
        elif chance < 0.72:
            with contextlib.suppress(NotJoinedError):
                self._carry(self._machine.force(self._now_ms))

    def _carry(self, effects: Iterable[GroupEffect]) -> None:
        for effect in effects:
            match effect:
                case Tell(message=message):
                    assert messages.decode(messages.encode(message)) == message, "we said what nobody accepts"
                case Save(after=after, entries=entries):
                    assert after >= self._applied.index, "what is applied is written over"
                    self._carry(self._machine.on_saved(after + len(entries), self._now_ms))
                case Apply(entries=entries):
                    for entry in entries:
                        assert entry.place.index == self._applied.index + 1, "the log has a gap"
                        self._applied = entry.place
                        self._machine.on_applied(entry.place.index)
