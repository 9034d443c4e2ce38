"""One agent of the World turns rogue: with a key of its own it says of all others what it likes, amid all faults.

What it forges is what a taken-over member can send: claims that others had nothing or something, with their words of
before or with none, announcements and good-byes in their name, that they hang nowhere, records that they are elsewhere
or gone. Beside that it does its own work, so that everything that holds of honest agents has to hold still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from elf.agents.agent import Agent
from elf.agents.wire.catalogue import member_record
from elf.agents.wire.introductions import gone, introduced
from elf.agents.wire.records import Member
from elf.overlay.contract import NEVER
from elf.overlay.effects import Send
from elf.overlay.ids import source_id
from elf.overlay.messages import Announce, Claim, Contribution, Presence, Retire, TreeMessage, Word
from elf.overlay.rollup.machine import Rollup
from elf.overlay.rollup.words import Words, spoken
from tests.world.faults import Faults
from tests.world.truth import LOGGED, PUSHED
from tests.world.world import Host

#: How many words of others it remembers.
HEARD_MAX = 1_000


class Rogue(Faults):
    """Faults, and a rogue: the last host's agent, in whichever life."""

    KINDS = (*Faults.KINDS, *("claim",) * 16, *("announce",) * 3, *("leave",) * 3, *("lose",) * 2, *("record",) * 4)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._heard: dict[tuple[bytes, str, Word], None] = {}

    def claim(self) -> bool:
        """Claim that others had nothing, or something, in the next intervals."""

        def forge(agent: Agent, rollup: Rollup, names: tuple[str, ...]) -> TreeMessage:
            since = max(NEVER, rollup.committed - self.rng.randint(0, 1))
            through = since + self.rng.choice([2, 3, 4, 5, 1 << 40])
            seen = [claim for claims in rollup.barrier.bag.edges.values() for claim in claims] + rollup.barrier.kept
            for claim in seen:
                self._heard.update({(rollup.app, name, word): None for name, word in claim.spoken()})
            while len(self._heard) > HEARD_MAX:
                del self._heard[next(iter(self._heard))]
            heard = {name: word for app, name, word in self._heard if app == rollup.app and self.rng.random() < 0.5}
            mine = {name: spoken(agent, rollup.app, name, since, through, None) for name in names}
            words = tuple(heard.get(name) or self.rng.choice([mine[name], None]) for name in names)
            payloads = [None, *(claim.payload for claim in seen)]
            claim = Claim(since, through, names, self.rng.choice(payloads), self.rng.choice([words, ()]))
            assert rollup._parent is not None
            return Contribution(rollup.app, rollup._parent.epoch, claim)

        return self._forge(forge)

    def announce(self) -> bool:
        """Say in somebody's name that its verdicts are all known to it."""

        def forge(agent: Agent, rollup: Rollup, names: tuple[str, ...]) -> TreeMessage:
            announce = Announce(rollup.app, names[0], rollup.committed, rollup.committed + 9, self.rng.random() < 0.5)
            return self.rng.choice([announce, Words(rollup.app, agent.agent_id, agent).announced(announce)])

        return self._forge(forge)

    def leave(self) -> bool:
        """Say good-bye in somebody's name."""

        def forge(agent: Agent, rollup: Rollup, names: tuple[str, ...]) -> TreeMessage:
            retire = Retire(rollup.app, names[0], rollup.term)
            return self.rng.choice([retire, Words(rollup.app, agent.agent_id, agent).leaving(retire)])

        return self._forge(forge)

    def lose(self) -> bool:
        """Say that others hang under nobody, or under itself."""
        return self._forge(lambda agent, rollup, names: Presence(rollup.app, names, self.rng.random() < 0.5))

    def record(self) -> bool:
        """Write in the trees of the sources that somebody is elsewhere, has nothing, or is gone, and is for ever."""
        host, others = self._host, self._others
        if host is None or not others:
            return False
        agent, member = host.agent, self.rng.choice(others)
        assert agent is not None
        version = host.wall_ms() + self.rng.choice([1, 10_000, 1 << 50])
        false = self.rng.choice([replace(member, address="10.9.9.9:4250"), replace(member, sources=()), member])
        false = self.rng.choice([false, gone(false), introduced(false, version, agent.membership.passport.key)])
        tree = source_id(self.rng.choice((PUSHED, LOGGED)))
        self._do(host, lambda: agent.node.add_record(tree, member_record(false, version)))
        return True

    # ---- inside

    @property
    def _host(self) -> Host | None:
        host = self.world.hosts[-1]
        return host if host.service is not None and host.agent is not None and not host.is_paused else None

    @property
    def _others(self) -> list[Member]:
        agent = None if self._host is None else self._host.agent
        known: Iterable[Member] = () if agent is None else agent.catalogue.all_members()
        return [member for member in known if agent is not None and member.agent_id != agent.agent_id]

    def _forge(self, forge: Callable[[Agent, Rollup, tuple[str, ...]], TreeMessage]) -> bool:
        """Send something to the parent of each job's tree that the rogue has a parent in; returns whether it has."""
        host, others = self._host, [member.agent_id for member in self._others]
        if host is None or not others:
            return False
        agent = host.agent
        assert agent is not None
        has_sent = False
        for app, application in list(agent.node._apps.items()):
            rollup = application.rollup
            if rollup is None or rollup._parent is None:
                continue
            names = tuple(self.rng.sample(others, self.rng.randint(1, len(others))))
            message = forge(agent, rollup, names)
            to = rollup._parent.parent
            self._do(host, lambda app=app, to=to, message=message: agent.node._execute(app, [Send(to, message)]))
            has_sent = True
        return has_sent

    def _do(self, host: Host, act: Callable[[], Any]) -> None:
        assert host.life is not None
        host.life.context.run(act)
