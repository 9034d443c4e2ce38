"""What a running job does and costs, put together by whichever agent is asked.

The plan is compiled here. The job's master tells versions and panes; an agent of its source, this one if it has it,
tells what it measures and which other jobs share the work there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from elf.agents.errors import ElfError, UnavailableError
from elf.agents.jobs.explanation import explain_plan
from elf.agents.jobs.parts import Part
from elf.agents.jobs.plan import compile_job
from elf.agents.master.listing import definition_of
from elf.agents.results.gatherer import Answered
from elf.agents.wire.positions import Json
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.wire.sources import Inspect
from elf.overlay.errors import OverlayError
from elf.overlay.ids import source_id
from elf.overlay.node import OverlayNode


class _Panes(msgspec.Struct, frozen=True):
    count: int = 0
    filled: int = 0
    rows: int = 0
    rows_max: int = 0


class _Part(msgspec.Struct, frozen=True):
    master: str = ""
    panes: _Panes = _Panes()


class _Version(msgspec.Struct, frozen=True):
    version: int
    what: str
    since_ms: int | None = None


class _Described(msgspec.Struct, frozen=True):
    state: str
    master: str
    panes: _Panes = _Panes()
    versions: list[_Version] = []
    parts: list[_Part] = []


class _Jobs(msgspec.Struct, frozen=True):
    jobs: list[str]
    count: int


class _Sharing(msgspec.Struct, frozen=True):
    parsing: _Jobs
    filtering: _Jobs
    paos: _Jobs
    trees: _Jobs
    own_columns: list[str]


class _Inspected(msgspec.Struct, frozen=True):
    agent: str
    sharing: _Sharing
    open_bytes: int
    snapshots: int
    snapshot_bytes: int


class Explaining:
    """Explains jobs on behalf of one agent.

    Args:
        node: the overlay.
        sources: this agent's own.
        described: describes a job, with all its parts.
        tree: draws a job's reducer tree.
        ask_self: asks this very agent.
    """

    def __init__(
        self,
        node: OverlayNode,
        sources: Collection[str],
        described: Callable[[str, str], Awaitable[Answered]],
        tree: Callable[[str, str], Awaitable[Json]],
        ask_self: Callable[[Inspect], Awaitable[Any]],
    ) -> None:
        self._node = node
        self._sources = sources
        self._described = described
        self._tree = tree
        self._ask_self = ask_self

    async def explain(self, creator: str, name: str) -> Json:
        """Explain a job.

        Returns:
            What `explain_plan` does, and of the running job: state, master, version, versions (version, what,
            since_ms), sharing (parsing, filtering, paos and trees: jobs, count; own_columns; see
            `elf.agents.worker.sharing.description`), tree (root, agents, depth, children_max, unreachable, trees), cost
            (agent, open_bytes, of trees that several jobs hold its part, snapshots, snapshot_bytes and pane_rows:
            means, panes, pane_rows_max). What could not be asked is None, and `unknown` says so.

        Raises:
            UnknownJobError: there is no such job.
            UnavailableError: its master cannot be asked now, or tells what is no job.
        """
        value, _ = await self._described(creator, name)
        definition = definition_of(value)
        try:
            job = msgspec.convert(value, _Described)
        except msgspec.ValidationError as error:
            raise UnavailableError(f"the master of {creator}/{name} tells what is no job: {error}") from None
        plan = await asyncio.to_thread(compile_job, definition, definition.types)
        explained = explain_plan(plan)
        inspected, drawn = await asyncio.gather(
            self._inspect(definition.source, Part(creator, name).app), self._tree(creator, name), return_exceptions=True
        )
        for answer in (inspected, drawn):
            if isinstance(answer, BaseException) and not isinstance(answer, ElfError | OverlayError):
                raise answer
        unknown = list(explained["unknown"])
        if isinstance(inspected, BaseException):
            unknown.append(f"what it shares and costs at agents: {inspected}")
        if isinstance(drawn, BaseException):
            unknown.append(f"its tree: {drawn}")
        told = None if isinstance(inspected, BaseException) else inspected
        return {
            **explained,
            "unknown": unknown,
            "state": job.state,
            "master": job.master,
            "version": definition.version,
            "versions": msgspec.to_builtins(job.versions),
            "sharing": None if told is None else msgspec.to_builtins(told.sharing),
            "tree": None if isinstance(drawn, BaseException) else shape_of(drawn["nodes"], definition.options.trees),
            "cost": _cost(job, told),
        }

    async def _inspect(self, source: str, app: bytes) -> _Inspected:
        """Ask this agent if it has the source, else one that has."""
        request = Inspect(source, app)
        if source in self._sources:
            value = await self._ask_self(request)
        else:
            value = value_of((await self._node.route(source_id(source), encode(request))).body)
        try:
            return msgspec.convert(value, _Inspected)
        except msgspec.ValidationError as error:
            raise UnavailableError(f"an agent of source {source!r} tells what nobody asked: {error}") from None


def shape_of(nodes: Sequence[Mapping[str, Any]], trees: int) -> Json:
    """Tell the shape of a reducer tree, the first of `trees`; nodes come from the root downwards, parents first."""
    depths: dict[str, int] = {}
    children: dict[str, int] = {}
    for node in nodes:
        parent = node["parent"]
        depths[node["id"]] = 0 if parent is None else depths.get(parent, 0) + 1
        if parent is not None:
            children[parent] = children.get(parent, 0) + 1
    return {
        "root": nodes[0]["address"],
        "agents": len(nodes),
        "depth": max(depths.values()),
        "children_max": max(children.values(), default=0),
        "unreachable": sum(node["role"] == "unreachable" for node in nodes),
        "trees": trees,
    }


def _cost(job: _Described, told: _Inspected | None) -> Json:
    panes = [part.panes for part in job.parts] or [job.panes]
    means = [each.rows / each.filled for each in panes if each.filled]
    return {
        "agent": None if told is None else told.agent,
        "open_bytes": None if told is None else told.open_bytes,
        "snapshots": None if told is None else told.snapshots,
        "snapshot_bytes": None if told is None or not told.snapshots else told.snapshot_bytes // told.snapshots,
        "panes": sum(each.count for each in panes),
        "pane_rows": round(sum(means)) if means else None,
        "pane_rows_max": sum(each.rows_max for each in panes),
    }
