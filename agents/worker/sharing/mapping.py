"""A frame of events mapped once for all workers whose jobs make the same PAOs of it, and filtered once for more.

Whatever their names, creators, windows, HAVING, ORDER BY, LIMIT, lateness, semantics and trees: what is dear, parsing,
filtering and mapping, is done once. Jobs with several trees have as many parts, each with a tree, a worker and a master
of its own (DESIGN section 4); which rows of the mapped frame a part gets the fixed hash of their keys decides
(`elf.cbt.partitions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from elf.agents.jobs.plan import Plan
from elf.agents.worker.poison import Taker
from elf.agents.worker.sharing.event_frame import EventFrame, framed
from elf.agents.worker.sharing.insertion import Alone, named, take_together
from elf.agents.worker.worker import Worker
from elf.cbt import split


def takers(workers: Iterable[Worker], frame: EventFrame) -> Iterator[Taker]:
    """Put workers together that map a frame of events alike; one that needs several maps for it stays alone.

    Versions of jobs for whose types lines are parsed in another way are left out.

    Those whose filters are equal come one after the other, so that what is filtered for them need not be kept for long.
    """
    alike: dict[object, Together] = {}
    for worker in workers:
        worker.meet(frame)
        counting = worker.counting(frame)
        if len(counting) > 1:
            yield Alone(worker, frame)
            continue
        for version, plan in counting:
            together = alike.setdefault(mapped_as(plan), Together(plan, frame))
            together.add(worker, version.pao_kind)
    filters: dict[object, list[Together]] = {}
    for each in alike.values():
        filters.setdefault(each.plan.filter_key or each, []).append(each)
    # Or what is filtered for some would be kept until all have it.
    alike.clear()
    while filters:
        _, group = filters.popitem()
        if len(group) > 1:
            filtered = Filtered(frame, [each.plan for each in group])
            for each in group:
                each.filtered = filtered
        yield from group


def mapped_as(plan: Plan) -> object:
    """Return a value equal for plans that are mapped together.

    Functions that jobs bring along run in processes of their own, and stop for reasons of their own: jobs that have
    some are mapped with their own parts only.
    """
    definition = plan.definition
    own = (definition.creator, definition.name, definition.functions) if definition.functions else ()
    return plan.map_key, plan.numbering, own


class Filtered:
    """What a filter that several plans have leaves of a frame of events.

    Args:
        frame: the events.
        plans: all with the same filter; other columns are left out than those that they read.
    """

    def __init__(self, frame: EventFrame, plans: Sequence[Plan]) -> None:
        self._events = frame.events
        self._columns = [name for plan in plans for name in plan.columns]
        self._wanted: EventFrame | None = None
        self._is_known = False

    def wanted(self, plan: Plan, events: pl.DataFrame) -> EventFrame | None:
        """Return the events that the filter keeps, of the whole frame or, where that fails somewhere, of a part."""
        if events is not self._events:
            return framed(plan.wanted(events))
        if not self._is_known:
            self._wanted = framed(plan.wanted(events, self._columns))
            self._is_known = True
        return self._wanted


class Together:
    """Workers for which a frame of events is mapped once.

    Args:
        plan: how.
        frame: the events.
    """

    def __init__(self, plan: Plan, frame: EventFrame) -> None:
        self.plan = plan
        #: Where others have the same filter.
        self.filtered: Filtered | None = None
        self._frame = frame
        #: Over so many trees, and of which of them: the workers, each with the kind of PAOs that these are in its job.
        self._members: dict[tuple[int, int], list[tuple[Worker, int]]] = {}

    def add(self, worker: Worker, kind: int) -> None:
        """Map for a worker, too, in whose job these are the PAOs of a kind."""
        definition = worker.plan.definition
        self._members.setdefault((definition.options.trees, definition.part), []).append((worker, kind))

    def insert(self, events: pl.DataFrame) -> None:
        """Map the frame, or a part of it, and give all workers their rows; if it cannot be mapped, none has any."""
        if self.filtered is None:
            wanted = framed(self.plan.wanted(events), self._frame)
        else:
            wanted = self.filtered.wanted(self.plan, events)
        if wanted is None:
            return
        paos = self.plan.mapped(wanted.events)
        spread = {trees: split(paos, self.plan.schema, trees) for trees in {trees for trees, _ in self._members}}
        for (trees, part), members in self._members.items():
            take_together(wanted, spread[trees][part], self.plan.schema, members)

    @property
    def workers(self) -> list[Worker]:
        """All for which it is mapped."""
        return [worker for members in self._members.values() for worker, _ in members]

    @property
    def jobs(self) -> str:
        """Their names, for people."""
        return named(self.workers)

    def note_gap(self, after_ms: int | None, before_ms: int) -> None:
        """Remember a gap in all: an event that cannot be mapped is in none of them."""
        for worker in self.workers:
            worker.note_gap(after_ms, before_ms)
