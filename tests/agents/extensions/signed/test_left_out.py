"""What a worker does with events whose functions run no more: they are left out, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import polars as pl
from msgspec.structs import replace

from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.language.installed.calls import FunctionsStoppedError
from elf.agents.language.own_functions import Admits, Call, OwnFunction
from elf.agents.language.types import SqlType
from elf.agents.worker.payload import unpack
from elf.agents.worker.poison import insert_whatever
from elf.agents.worker.worker import Worker
from tests.agents.language.test_own_functions import TYPES, admits, definition_of

QUERY = "SELECT sum(longer(cents, product)) AS n FROM clicks GROUP BY window(ts, '1 second')"


def stopped(creator: str, job: str, functions: Sequence[OwnFunction]) -> Sequence[Call]:
    """Admit functions that were stopped."""

    def call(columns: Sequence[pl.Series]) -> NoReturn:
        raise FunctionsStoppedError("job shop/sums is stopped: its functions take too long")

    return [call for _ in functions]


def events(*at_ms: int) -> pl.DataFrame:
    frame = pl.DataFrame({"ts": at_ms, "product": ["ab"] * len(at_ms), "cents": [1] * len(at_ms)})
    return frame.with_columns(pl.col("ts").cast(pl.Datetime("ms")), pl.col("cents").cast(SqlType.INT.dtype))


def plan_of(number: int, admitted: Admits = admits) -> Plan:
    return compile_job(replace(definition_of(QUERY), version=number), TYPES, admitted)


def test_a_stopped_function_leaves_out_whole_frames_at_once() -> None:
    worker = Worker(plan_of(1, stopped), "w1")
    worker.begin(None)
    assert insert_whatever(worker, events(3_100, *range(5_000, 5_900))) == 901
    # Each begins as much earlier as events may be late.
    assert worker.progress.gaps == ((1, 3), (3, 5))


def test_what_is_late_for_a_stopped_function_takes_nothing_along_that_another_version_counts() -> None:
    old, new = plan_of(1, stopped), plan_of(2)
    later = Version(number=2, definition=new.definition, what="update", since=5, begins=5, pao_kind=2)
    versions = Versions([Compiled(Version(number=1, definition=old.definition), old), Compiled(later, new)])
    worker = Worker(versions, "w1")
    worker.begin(None)
    assert insert_whatever(worker, events(3_100, 5_100, 5_200)) == 0
    assert worker.progress.gaps == ((1, 3),)
    payloads = [each.payload for each in worker.seal(60_000) if each.payload is not None]
    rows = pl.concat([paos for payload in payloads for _, paos in unpack(payload, versions)[1].parts])
    assert rows["interval"].to_list() == [5]
