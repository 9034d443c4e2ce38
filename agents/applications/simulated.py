"""An application in virtual time, for tests of it: the very classes that agents run, with no agent. Pure.

All that agents promise is kept, and no more (docs/APPLICATIONS.md): multicasts come in order and at most once, agents
that were away catch up with them, messages to these are lost, a new master knows what the one before has kept and
nothing else. When things arrive is drawn from a seed, so a failure can be repeated.
"""

from __future__ import annotations

import functools
import heapq
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from elf.agents.applications.instance import Instance
from elf.agents.errors import JobError
from elf.agents.extensions.application_contract import (
    Answered,
    Asked,
    Closed,
    Effect,
    Heard,
    Input,
    Json,
    Keep,
    Multicast,
    Publish,
    Received,
    Reply,
    Route,
    Rung,
    Send,
    SetTimer,
    Started,
    Subscribe,
)
from elf.agents.extensions.application_declaration import Application, columns_of
from elf.agents.wire.application_messages import Role, packed, unpacked
from elf.agents.wire.result import Column, Completeness, Result, Window

#: Answers for another job: takes the asker and the query.
Answering = Callable[[str, Any], Any]


class _Place:
    """One instance: how many multicasts it has heard, when its last message arrives, which timer counts."""

    def __init__(self, instance: Instance, heard: int) -> None:
        self.instance = instance
        self.away = False
        self.heard = heard
        self.last_ms = self.timer = 0


class Simulation:
    """An application at a job's master and at some agents. The first agent is the master's, too.

    Args:
        application: the class.
        agents: their names.
        job: `creator/name`.
        seed: of delays, and of what `self.elf.rng` gives.
        delay_ms: shortest and longest time that a message takes.

    Raises:
        ValueError: there is no agent, or none of a name that a method was given.
    """

    def __init__(
        self,
        application: type[Application],
        agents: Iterable[str] = ("web1", "web2", "web3"),
        *,
        job: str = "shop/job",
        seed: int = 0,
        delay_ms: tuple[int, int] = (1, 20),
    ) -> None:
        self.now_ms = 0
        #: What was multicast, in order, and the rows that were published, the newest last.
        self.multicasts: list[Any] = []
        self.published: list[list[Json]] = []
        #: Other jobs that the master follows.
        self.subscribed: set[str] = set()
        self._kind = application
        self._job = job
        self._rng = random.Random(seed)
        self._delay_ms = delay_ms
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._answering: dict[str, Answering] = {}
        self._log: list[bytes] = []
        self._kept: bytes | None = None
        names = tuple(agents)
        if not names:
            raise ValueError("a simulation has one agent at least, which is the master's, too")
        self._agents = {name: self._make("agent", name) for name in names}
        self._master = self._make("master", names[0])

    @property
    def master(self) -> Application:
        """The instance at the master."""
        return _application(self._master)

    @property
    def kept(self) -> Any:
        """What a master has kept last; None if nothing."""
        return None if self._kept is None else unpacked(self._kept)

    def agent(self, name: str) -> Application:
        """Return the instance at an agent."""
        return _application(self._at_agent(name))

    def close(
        self,
        rows: Sequence[Mapping[str, Any]],
        start_ms: int = 0,
        end_ms: int = 60_000,
        *,
        job: str | None = None,
        revision: int = 0,
        missing: Sequence[str] = (),
    ) -> None:
        """Let a window close, or (`revision` above 0) be revised; of another job only if it is subscribed to.

        Args:
            rows: the result.
            start_ms: the window's first instant.
            end_ms: the instant after its last.
            job: `creator/name`; None: the application's own.
            revision: how often the result has changed.
            missing: agents that it lacks.
        """
        if job is not None and job != self._job and job not in self.subscribed:
            return
        status = "final_incomplete" if missing else "revised" if revision else "final"
        expected = len(self._agents)
        label = Completeness(expected, expected - len(missing), list(missing), revision=revision, status=status)
        plain = [dict(row) for row in rows]
        columns = msgspec.convert(columns_of(plain), list[Column])
        result = Result(job or self._job, columns, plain, label, Window(start_ms, end_ms), end_ms)
        self._handle(self._master, Closed(result))

    def run(self, ms: int = 1_000) -> None:
        """Let time pass: messages arrive, timers ring.

        Raises:
            ApplicationError: a callback failed; its cause is what was raised.
        """
        end_ms = self.now_ms + ms
        while self._due and self._due[0][0] <= end_ms:
            self.now_ms, _, work = heapq.heappop(self._due)
            work()
        self.now_ms = end_ms

    def route(self, query: Any, asker: str = "") -> Any:
        """Ask the application at the master; raises JobError if it answers with an error."""
        for effect in self._handle(self._master, Asked(asker, packed(query))):
            if isinstance(effect, Reply):
                if effect.body is None:
                    raise JobError(effect.error)
                return unpacked(effect.body)
        raise AssertionError("a query has a reply")

    def answer(self, job: str, answering: Answering) -> None:
        """Let another job, `creator/name`, answer what is routed to it; a JobError is an answer with an error."""
        self._answering[job] = answering

    def cut(self, agent: str) -> None:
        """Cut an agent off: it hears nothing, and what is sent to it or by it is lost."""
        self._at_agent(agent).away = True

    def heal(self, agent: str) -> None:
        """Let an agent be there again; it catches up with what was multicast."""
        place = self._at_agent(agent)
        place.away = False
        self._catch_up(place)

    def restart(self, agent: str) -> None:
        """Let an agent begin anew: its instance knows nothing, and what it has heard does not come again."""
        self._agents[agent] = self._make("agent", agent, self._at_agent(agent).heard)
        self._catch_up(self._agents[agent])

    def fail_master(self, agent: str) -> None:
        """Lose the master; that at another agent knows of what this one did only what it has kept."""
        self._at_agent(agent)
        self.subscribed = set()
        self._master = self._make("master", agent)

    def _at_agent(self, name: str) -> _Place:
        if name not in self._agents:
            raise ValueError(f"the simulation has no agent {name!r}; there are {', '.join(self._agents)}")
        return self._agents[name]

    def _make(self, role: Role, agent: str, heard: int = 0) -> _Place:
        rng = random.Random(self._rng.getrandbits(64))
        kept = self._kept if role == "master" else None
        place = _Place(Instance(self._kind, role, self._job, agent, rng, kept), heard)
        self._handle(place, Started())
        return place

    def _handle(self, place: _Place, event: Input) -> list[Effect]:
        effects = place.instance.handle(event, self.now_ms)
        for effect in effects:
            self._perform(place, effect)
        return effects

    def _perform(self, place: _Place, effect: Effect) -> None:
        match effect:
            case Subscribe(job):
                self.subscribed.add(job)
            case SetTimer(in_ms):
                place.timer += 1
                self._at(self.now_ms + in_ms, functools.partial(self._ring, place, place.timer))
            case Multicast(body):
                self.multicasts.append(unpacked(body))
                self._log.append(body)
                for each in self._agents.values():
                    self._at(self._arrival_ms(each), functools.partial(self._hear, each))
            case Send(to, body):
                there = self._master if to is None else self._agents.get(to)
                if there is not None and not place.away:
                    self._arrive(there, Received(place.instance.elf.agent, body))
            case Route():
                self._arrive(place, self._answered(effect))
            case Publish(result):
                self.published.append(result["rows"])
            case Keep(body):
                self._kept = body

    def _answered(self, route: Route) -> Answered:
        answering = self._answering.get(route.job)
        if answering is None:
            return Answered(route.number, None, f"there is no job {route.job!r}")
        try:
            return Answered(route.number, packed(answering(self._job, unpacked(route.body))))
        except JobError as error:
            return Answered(route.number, None, str(error))

    def _arrive(self, place: _Place, event: Input) -> None:
        """Let something arrive after a while; it is lost if the agent is gone then, or away."""
        self._at(self._arrival_ms(place), functools.partial(self._deliver, place, event))

    def _arrival_ms(self, place: _Place) -> int:
        """Return when what is said now arrives: behind all that is on its way."""
        place.last_ms = max(place.last_ms, self.now_ms + self._rng.randint(*self._delay_ms))
        return place.last_ms

    def _deliver(self, place: _Place, event: Input) -> None:
        if self._is_there(place) and not place.away:
            self._handle(place, event)

    def _hear(self, place: _Place) -> None:
        """Hear the next multicast, if there is one."""
        if self._is_there(place) and not place.away and place.heard < len(self._log):
            place.heard += 1
            self._handle(place, Heard(self._log[place.heard - 1]))

    def _catch_up(self, place: _Place) -> None:
        for _ in self._log[place.heard :]:
            self._at(self._arrival_ms(place), functools.partial(self._hear, place))

    def _ring(self, place: _Place, timer: int) -> None:
        if place.timer == timer and self._is_there(place):
            self._handle(place, Rung())

    def _is_there(self, place: _Place) -> bool:
        return place is self._master or place in self._agents.values()

    def _at(self, at_ms: int, work: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._due, (at_ms, self._number, work))


def _application(place: _Place) -> Application:
    assert place.instance.application is not None
    return place.instance.application
