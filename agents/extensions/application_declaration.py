"""What an application is: a class with callbacks, and what these may ask for. Pure; docs/APPLICATIONS.md.

A package declares such a class under the entry point `elf.applications`; a job names it in its options. Calls of
`self.elf` are noted, checked, and done once the callback has returned, so callbacks are functions of what happened.
Paper: Tables 1 and 2 (`Subscribe`, `OnTimer`, `SendTo`, `OnRecv`, `Multicast`, `OnMulticast`, `Route`, `OnRoute`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from elf.agents.extensions.application_contract import (
    Effect,
    Json,
    Keep,
    Multicast,
    Publish,
    Route,
    Send,
    SetTimer,
    Subscribe,
)
from elf.agents.wire.application_messages import Role, packed, packed_to_keep
from elf.agents.wire.result import Result

#: What one callback may ask for; more is a loop that does not end.
EFFECTS_MAX = 10_000
#: Shortest and longest time to be woken after.
TIMER_MS_MIN, TIMER_MS_MAX = 10, 7 * 86_400_000
ROWS_MAX = 10_000
_TYPES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "STRING"}


class Answer(NamedTuple):
    """What became of a query that was routed to another job.

    Attributes:
        job: which.
        query: as it was asked.
        value: what that job's application answered; None if there is an error.
        error: why there is no answer, a sentence; None if there is one.
    """

    job: str
    query: Any
    value: Any
    error: str | None


class Elf:
    """What an application can ask for, and where it is; `self.elf` of each.

    Attributes:
        role: "master" at the job's master, "agent" at an agent with the job's source.
        job: `creator/name`.
        agent: the name of the agent that this runs at.
        now_ms: wall clock when the callback began (ms).
        rng: randomness; use it instead of the module's, so that a simulation can be repeated.
        kept: at the master, what was kept last before this instance began, here or at a master before; None if nothing.
    """

    def __init__(self, role: Role, job: str, agent: str, rng: random.Random, kept: Any = None) -> None:
        self.role = role
        self.job = job
        self.agent = agent
        self.rng = rng
        self.kept = kept
        self.now_ms = 0
        self._effects: list[Effect] = []
        self._asked: dict[int, tuple[str, Any]] = {}
        self._number = 0

    def subscribe(self, job: str) -> None:
        """Have `on_result` called for another job's windows, too; at the master. One's own come unasked.

        Args:
            job: `creator/name`, or the name alone of a job of the same creator.
        """
        self._need("master", "subscribe")
        self._want(Subscribe(self._key_of(job)))

    def set_timer(self, in_ms: int) -> None:
        """Have `on_timer` called once, after so long; a timer that was set before is forgotten."""
        if not TIMER_MS_MIN <= in_ms <= TIMER_MS_MAX:
            raise ValueError(f"a timer is set to {TIMER_MS_MIN} to {TIMER_MS_MAX} ms, not to {in_ms}")
        self._want(SetTimer(int(in_ms)))

    def multicast(self, message: Any) -> None:
        """Say something to all agents, at the master: `on_multicast` is called there, in order, at most once."""
        self._need("master", "multicast")
        self._want(Multicast(packed(message)))

    def send_to(self, agent: str, message: Any) -> None:
        """Say something to the application at one agent, by name: `on_recv` is called there, at most once."""
        self._want(Send(agent, packed(message)))

    def send_to_master(self, message: Any) -> None:
        """Say something to the application at the job's master, from an agent: `on_recv` is called there."""
        self._need("agent", "send_to_master")
        self._want(Send(None, packed(message)))

    def route(self, job: str, query: Any) -> None:
        """Ask the application of another job, at the master: `on_answer` is called with what it answers.

        Args:
            job: `creator/name`, or the name alone of a job of the same creator.
            query: what its `on_route` is called with.
        """
        self._need("master", "route")
        self._number += 1
        key = self._key_of(job)
        self._want(Route(self._number, key, packed(query)))
        self._asked[self._number] = key, query

    def publish(self, rows: Sequence[Mapping[str, Any]], of: Result) -> None:
        """Bring rows of one's own to all agents, at the master: `client.feedback` reads them there.

        Args:
            rows: the application's result, at most 10,000; those without room in 256 KiB are cut off, and counted.
            of: the job's result that they were made of; its window and label go with them.
        """
        self._need("master", "publish")
        plain = [dict(row) for row in rows]
        if len(plain) > ROWS_MAX:
            raise ValueError(f"at most {ROWS_MAX} rows can be published, not {len(plain)}")
        for row in plain:
            packed(row)
        told: Json = {
            "job": self.job,
            "columns": columns_of(plain),
            "rows": plain,
            "window": msgspec.to_builtins(of.window),
            "through_ms": of.through_ms,
            "completeness": msgspec.to_builtins(of.completeness),
            "version": of.version,
        }
        self._want(Publish(told))

    def keep(self, value: Any) -> None:
        """Have a value for the next master, at the master: its instance finds it as `self.elf.kept`.

        It takes the place of what was kept before, and is done before everything else that the callback asks for.

        Args:
            value: what messages are made of, at most 64 KiB as JSON.
        """
        self._need("master", "keep")
        self._want(Keep(packed_to_keep(value)))

    def _need(self, role: Role, call: str) -> None:
        if self.role != role:
            raise RuntimeError(f"{call} is for the {role}; this runs at the {self.role}")

    def _key_of(self, job: str) -> str:
        return job if "/" in job else f"{self.job.partition('/')[0]}/{job}"

    def _want(self, effect: Effect) -> None:
        if len(self._effects) >= EFFECTS_MAX:
            raise RuntimeError(f"one callback asks for more than {EFFECTS_MAX} things")
        self._effects.append(effect)

    def begin(self, now_ms: int) -> None:
        """Forget what was asked for; a callback begins now."""
        self.now_ms = now_ms
        self._effects = []

    def take(self) -> list[Effect]:
        """Return what the callback has asked for."""
        effects = self._effects
        self._effects = []
        return effects

    def answer_of(self, number: int, value: Any, error: str | None) -> Answer | None:
        """Return an answer to a query of ours; None if there is none of that number."""
        asked = self._asked.pop(number, None)
        return None if asked is None else Answer(*asked, value, error)


class Application:
    """A job's application: override the callbacks that you need.

    One instance runs at the job's master, one at each agent with the job's source; each is called by one thread, one
    callback at a time. An exception ends the instance, for good, and `elf jobs` says why.
    """

    #: What it can ask for, and where it is; there before `__init__` is called.
    elf: Elf

    def on_start(self) -> None:
        """Begin: the first callback, also at a new master, which knows of the one before what that has kept."""

    def on_result(self, result: Result) -> None:
        """Heed a window of the job, or of one subscribed to, that has closed or was revised; at the master."""

    def on_timer(self) -> None:
        """Do what `set_timer` was called for."""

    def on_recv(self, sender: str, message: Any) -> None:
        """Heed a message of the application at another agent, by name; at an agent mostly of the master's."""

    def on_multicast(self, message: Any) -> None:
        """Heed what the master says to all; at the agents."""

    def on_missed(self) -> None:
        """Know that multicasts were said which never come here, before the next one."""

    def on_route(self, asker: str, query: Any) -> Any:
        """Answer a query of the application of another job, or of a client (asker ""); at the master.

        An exception here is an answer: it is told to the asker, and the application goes on.
        """
        raise NotImplementedError("this application answers no queries")

    def on_answer(self, answer: Answer) -> None:
        """Heed what became of a query that was routed to another job."""


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Return names and types of the columns of rows, by the first value of each that is not None."""
    found: dict[str, str | None] = {}
    for row in rows:
        for name, value in row.items():
            if found.get(name) is None:
                found[name] = _type_of(value)
    return [{"name": name, "type": kind or "STRING"} for name, kind in found.items()]


def _type_of(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        inner = next((kind for each in value if (kind := _type_of(each)) is not None), "STRING")
        return f"ARRAY<{inner}>"
    return None if value is None else _TYPES.get(type(value), "STRING")
