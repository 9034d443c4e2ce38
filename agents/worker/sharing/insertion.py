"""PAOs of a frame of events given to the workers that take them: once for those who hold the same."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from elf.agents.failures import FAILURES
from elf.agents.language.installed.calls import FunctionsStoppedError
from elf.agents.worker.open_intervals import divided, insert_together
from elf.agents.worker.paos import among, extent
from elf.agents.worker.sharing.event_frame import EventFrame
from elf.cbt import INTERVAL, PaoSchema, split

if TYPE_CHECKING:
    from elf.agents.worker.worker import Worker

log = logging.getLogger(__name__)
#: Jobs that a message names.
NAMES_MAX = 10


class Alone:
    """A worker for which a frame is mapped apart from others, as events of several versions of its job are.

    Args:
        worker: the worker.
        frame: the events.
    """

    def __init__(self, worker: Worker, frame: EventFrame) -> None:
        self.worker = worker
        self.plan = worker.plan
        self.jobs = worker.jobs
        self.note_gap = worker.note_gap
        self._frame = frame

    def insert(self, events: pl.DataFrame) -> None:
        """Take in the frame, or a part of it; if this fails, nothing."""
        frame = self._frame if events is self._frame.events else EventFrame(events, self._frame.parsing)
        insert_alone(frame, self.worker)


def insert_alone(frame: EventFrame, worker: Worker) -> None:
    """Map a frame of events for one worker; several times, where several versions of its job count some of it.

    Of a job with several trees it takes the keys of its own part. If any of the maps fails, nothing is taken. But what
    is late for a version whose functions were stopped does not take along what comes for the one after it.
    """
    worker.meet(frame)
    mapped, left_out, definition = [], [], worker.plan.definition
    for (version, plan), part in worker.parted(frame):
        try:
            wanted = plan.wanted(part.events)
            paos = split(plan.mapped(wanted), plan.schema, definition.options.trees)[definition.part]
            mapped.append((wanted, paos, plan.schema, version.pao_kind))
        except FunctionsStoppedError:
            if len(worker.versions.all) == 1:
                raise
            left_out.append(part)
    for part in left_out:
        worker.note_gap(part.first_ms, part.last_ms)
    for wanted, paos, schema, kind in mapped:
        if wanted.height:
            take_together(EventFrame(wanted), paos, schema, [(worker, kind)])


def take_together(
    wanted: EventFrame, paos: pl.DataFrame, schema: PaoSchema, workers: Sequence[tuple[Worker, int]]
) -> None:
    """Give workers the PAOs of some events, each as far as it counts and has not dropped their intervals.

    Where an interval's cannot be taken in, whoever should have them says that it has a part only; all else is kept.

    Args:
        wanted: the events, those that the filter keeps.
        paos: what they are mapped to, or the part of it that these workers are for.
        schema: of the PAOs.
        workers: each with the kind of PAOs that these are in its job.
    """
    for worker, kind in workers:
        worker.note_late(wanted, kind)
    parts, scattered = divided(paos, [worker.open for worker, _ in workers])
    taken: list[tuple[Worker, int, Collection[int]]]
    if scattered is None:
        intervals = [interval for interval, _ in parts]
        taken = [(worker, kind, worker.admit(intervals, kind)) for worker, kind in workers]
    else:
        at = np.unique(paos[INTERVAL].to_numpy())
        admitted = [(worker, kind, worker.admit_all(at, kind)) for worker, kind in workers]
        for worker, kind, own in admitted:
            _scatter(
                scattered if len(own) == len(at) else scattered.filter(among(scattered, own)), schema, worker, kind
            )
        taken = [
            (worker, kind, set(own[np.isin(own, [at for at, _ in parts])].tolist())) for worker, kind, own in admitted
        ]
    for interval, part in parts:
        takers = [(worker, kind) for worker, kind, own in taken if interval in own]
        try:
            insert_together(interval, part, schema, [(worker.open, kind) for worker, kind in takers])
        except MemoryError:
            raise
        except FAILURES as error:
            log.error("job %s cannot take events in: %s", named([worker for worker, _ in takers]), error)
            for worker, _ in takers:
                at_ms = worker.versions.start_ms(interval)
                worker.note_gap(at_ms, at_ms)


def _scatter(paos: pl.DataFrame, schema: PaoSchema, worker: Worker, kind: int) -> None:
    """Give a worker PAOs of very many intervals."""
    try:
        worker.open.scatter(kind, paos, schema)
    except MemoryError:
        raise
    except FAILURES as error:
        log.error("job %s cannot take events in: %s", worker.jobs, error)
        first, last = extent(paos) or (0, 0)
        worker.note_gap(worker.versions.start_ms(first), worker.versions.start_ms(last))


def named(workers: Sequence[Worker]) -> str:
    """Name the jobs of some workers, for people."""
    names = [worker.jobs for worker in workers]
    return ", ".join(names[:NAMES_MAX]) + (f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else "")
