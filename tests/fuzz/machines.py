"""Peers that know the secret and lie: any sequence of valid messages leaves the machines sound and their answers valid.

STYLE 3.5: no peer can trip an assertion. One input is a list of messages; who sends which, what
role the node has and which edges exist follows from the bytes, so that an input repeats.
"""

from __future__ import annotations

import contextlib
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from elf.overlay import messages
from elf.overlay.application import Application
from elf.overlay.contract import OverlaySettings
from elf.overlay.effects import (
    Committed,
    ContactsChanged,
    Deliver,
    Delivered,
    Effect,
    Input,
    LookedUp,
    Lookup,
    Merge,
    Merged,
    Notified,
    Notify,
    PeerLost,
    Persist,
    Received,
    Send,
    Tick,
)
from elf.overlay.errors import DecodeError
from elf.overlay.ids import Contact
from elf.overlay.messages import Claim, Join

APP = b"a" * 20
ME = Contact.at("10.0.0.1", 4250)
PEERS = [Contact.at(f"10.0.0.{index}", 4250) for index in (2, 3, 4)]
NOW_MS = 1_700_000_000_000
LENGTH = 14
#: Inputs that one sequence may cause in all, answers of the runtime included.
STEPS_MAX = 400
#: Stands between messages, so that damage to one leaves the others whole.
BETWEEN = b"\n--\n"

Draw = Callable[[Any, random.Random], messages.Message]


def sequences(draw: Draw, kinds: Sequence[Any], rng: random.Random, count: int) -> list[bytes]:
    """Return sequences of drawn messages whose fields often fit each other."""
    found = []
    for _ in range(count):
        drawn = [_fit(draw(rng.choice(kinds), rng), rng) for _ in range(rng.randint(2, LENGTH))]
        drawn[:0] = [Join(APP, 7, rng.choice([None, ME.address])) for _ in range(rng.randrange(3))]
        found.append(BETWEEN.join(messages.encode(message) for message in drawn))
    return found


def play(data: bytes) -> None:
    """Feed one sequence to a root, a member or a forwarder.

    Raises:
        DecodeError: it holds not one message.
    """
    rng = random.Random(data)
    node = _Node(rng)
    heard = 0
    for part in data.split(BETWEEN)[: 2 * LENGTH]:
        with contextlib.suppress(DecodeError):
            message = messages.decode(part)
            if isinstance(message, messages.Request | messages.Reply):
                continue
            heard += 1
            node.hear(rng.choice(PEERS), msgspec.structs.replace(message, app=APP))
    if not heard:
        raise DecodeError("no message")


class _Node:
    """An application whose runtime and peers answer at once."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._now_ms, self._steps = rng, NOW_MS, 0
        self._epochs: dict[Contact, int] = {}
        settings = OverlaySettings(agent_id="me", grace_ms=0)
        peers = list(PEERS)
        root = rng.choice([None, ME, PEERS[0]])
        self._application = Application(APP, ME, lambda key: peers, settings, random.Random(1), root)
        if rng.random() < 0.8:
            self._carry(self._application.join(rng.random() < 0.8, root, self._now_ms, leap_after_ms=1_000))
            for through in range(rng.randrange(4)):
                self._carry(self._application.seal(through, rng.choice([None, b"p"]), self._now_ms)[1])

    def hear(self, sender: Contact, message: messages.TreeMessage) -> None:
        """Take a message; half of them name the epoch that this edge really has."""
        if hasattr(message, "epoch") and sender in self._epochs and self._rng.random() < 0.5:
            message = msgspec.structs.replace(message, epoch=self._epochs[sender])
        if isinstance(message, Join):
            self._epochs[sender] = message.epoch
        self._feed(Received(sender, message))
        chance = self._rng.random()
        self._now_ms += self._rng.choice([0, 1, 600, 5_000])
        if chance < 0.3:
            self._feed(Tick())
        elif chance < 0.35:
            self._feed(PeerLost(self._rng.choice(PEERS)))
        elif chance < 0.4:
            self._feed(ContactsChanged())

    def _feed(self, event: Input) -> None:
        self._carry(self._application.handle(event, self._now_ms))

    def _carry(self, effects: list[Effect]) -> None:
        waiting = deque(effects)
        while waiting:
            self._steps += 1
            assert self._steps < STEPS_MAX, "a few messages cause work without end"
            answer = self._answer(waiting.popleft())
            if answer is not None:
                waiting += self._application.handle(answer, self._now_ms)

    def _answer(self, effect: Effect) -> Input | None:
        match effect:
            case Send(to=to, message=message):
                assert messages.decode(messages.encode(message)) == message, "we said what nobody accepts"
                if isinstance(message, Join):
                    self._epochs[to] = message.epoch
            case Lookup():
                return LookedUp(tuple(self._rng.sample([ME, *PEERS], 2)))
            case Merge(ticket=ticket, payloads=payloads):
                bad = (0,) if self._rng.random() < 0.2 else ()
                return Merged(ticket, b"".join(payloads[len(bad) :]) or None, bad)
            case Persist(commit=commit):
                stored = msgspec.msgpack.encode(commit.state)
                assert msgspec.msgpack.decode(stored, type=type(commit.state)) == commit.state
                return Committed(commit.through)
            case Notify(verdict=verdict):
                return Notified(verdict.through)
            case Deliver(entry=entry):
                return Delivered(entry.mark)
        return None


def _fit(message: messages.Message, rng: random.Random) -> messages.Message:
    """Choose fields from few values, so that messages refer to the same edge, agent and interval."""
    agents = ("me", "x", "y")
    choices: dict[str, Callable[[], object]] = {
        "app": lambda: APP,
        "epoch": lambda: rng.choice([7, 7, 1]),
        "term": lambda: rng.randrange(4),
        "agent": lambda: rng.choice(agents),
        "settled": lambda: rng.randrange(-1, 4),
        "sealed": lambda: rng.randrange(-1, 4),
        "committed": lambda: rng.randrange(-1, 4),
        "missing": lambda: tuple(rng.sample(agents, rng.randrange(3))),
        "claim": lambda: Claim(
            low := rng.randrange(-1, 3),
            low + rng.randrange(1, 3),
            tuple(rng.sample(agents, rng.randint(1, 3))),
            rng.choice([None, b"p"]),
        ),
        "to": lambda: rng.choice([*PEERS, ME]).address,
        "root": lambda: rng.choice([None, ME.address, PEERS[0].address]),
    }
    fields = {name: make() for name, make in choices.items() if name in message.__struct_fields__}
    fitted: messages.Message = msgspec.structs.replace(message, **fields)
    return fitted
