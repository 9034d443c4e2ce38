"""Agents that come and go on purpose, and jobs whose lead is given to another: what people do to a cluster as it runs.

Owns which of these happens when, drawn from a seed like the faults that happen beside it, and that whoever leaves for
good is retired in the end; what must hold of it is in `checkers`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from elf.agents.errors import ElfError, UnknownAgentError
from elf.agents.http.agent_service import Service
from elf.agents.wire.positions import Json
from elf.overlay.errors import OverlayError
from tests.world.faults import LASTS_S, Faults
from tests.world.world import Host, UnansweredError

#: Hosts that stay at least: a majority of a root group of five, and one that may fall.
STAY_MIN = 4
#: A retirement that is refused is asked for again so often, in seconds, and so many times before it is taken for one of
#: an agent that nobody has heard of.
AGAIN_S, UNKNOWN_TRIES = 0.5, 20


class Members(Faults):
    """Faults, and people who add agents, take some out of service, and move masters."""

    KINDS = (*Faults.KINDS, "partition", "join", "join", "retire", "drain", "hand_over", "hand_over", "hand_over")

    def join(self) -> bool:
        """Let one more agent come, while jobs run."""
        waiting = [host for host in self.world.hosts if not host.starts]
        if not waiting:
            return False
        self._beside(self._come(waiting[0]))
        return True

    async def _come(self, host: Host) -> None:
        self._expect(host)
        await self._bring_back(host)

    def _expect(self, host: Host) -> None:
        self.truth.joined_s[host.name] = self.world.loop.time()
        # Its web server runs already: an agent whose log is not there cannot say how far it is, and is missed for good.
        host.log.write(b"")

    def retire(self) -> bool:
        """Take an agent out of service for good, stopped or killed, once."""
        host = self._victim()
        staying = [each for each in self.world.hosts if each.starts and not each.is_gone]
        if host is None or self.counts["retire"] or host.disks_lost or len(staying) <= STAY_MIN:
            return False
        host.is_gone = True
        self.truth.gone.add(host.name)
        self._beside(self._take_out(host))
        return True

    def drain(self) -> bool:
        """Stop an agent, retire it, and let it come back after all: it is admitted again, with what it has."""
        host = self._victim()
        if host is None or host.disks_lost or not self._may_fall():
            return False
        self._beside(self._drain(host))
        return True

    async def _drain(self, host: Host) -> None:
        await self._take_out(host)
        await asyncio.sleep(self.rng.uniform(*LASTS_S))
        await self._bring_back(host)

    async def _take_out(self, host: Host) -> None:
        assert host.agent is not None
        host.agent_id = host.agent.agent_id
        try:
            if self.rng.random() < 0.7:
                await host.stop()
        except (UnansweredError, AssertionError):
            pass  # it was killed meanwhile
        host.crash()
        await self._retire(host)

    async def _retire(self, host: Host) -> None:
        """Ask any agent to retire one, again until all masters have been told, or nobody knows it."""
        for tried in range(10_000):
            if host.life is not None:
                return  # somebody has started it again
            others = self.world.up()
            try:
                if others:
                    told = await self.rng.choice(others).ask(_retiring(host.agent_id))
                    self.truth.retire(host.name, told["jobs"])
                    if not told["unreachable"]:
                        self.counts["retired"] += 1
                        host.agent_id = ""
                        return
            except UnknownAgentError:
                if tried >= UNKNOWN_TRIES:
                    return
            except (ElfError, OverlayError, UnansweredError):
                pass
            await asyncio.sleep(AGAIN_S)

    def hand_over(self) -> bool:
        """Give the lead of a job to another member of its root group that votes."""
        leading = [
            (host, copy)
            for host in self.world.up()
            if host.agent is not None
            for copy in host.agent.copies.all()
            if copy.leads
        ]
        if not leading:
            return False
        host, copy = self.rng.choice(leading)
        agent = host.agent
        assert agent is not None
        heirs = [seat.agent for seat in copy.master.state.seats if seat.votes and seat.agent != agent.agent_id]
        if not heirs:
            return False
        heir = self.rng.choice(heirs)

        async def move(_: Service) -> None:
            agent.node.groups.hand_over(copy.job.tree, heir)

        async def ask() -> None:
            with contextlib.suppress(OverlayError, UnansweredError):  # it leads no more
                await host.ask(move)

        self._beside(ask())
        return True

    async def heal(self) -> None:
        """End every fault; whoever was to come has come, and whoever has left for good is retired."""
        for host in self.world.hosts:
            if not host.starts:
                self._expect(host)
        await super().heal()
        await asyncio.gather(*(self._retire(host) for host in self.world.hosts if host.is_gone and host.agent_id))


def _retiring(agent: str) -> Callable[[Service], Awaitable[Json]]:
    async def question(service: Service) -> Json:
        return await service.retire(agent, None)

    return question
