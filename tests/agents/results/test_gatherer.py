"""Which parts are asked for a key, and for a window that they count by different versions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from elf.agents.completeness.label import Label
from elf.agents.errors import StoppedError, UnavailableError
from elf.agents.jobs.plan import compile_job
from elf.agents.jobs.versions import Version
from elf.agents.master.results import Span
from elf.agents.results.gatherer import Answered, Gathering
from elf.agents.results.location import JobRequest
from elf.agents.results.shares import Shared, pack_rows, part_of_key
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.records import JobRecord
from elf.agents.wire.shares import AskShare
from tests.agents.plans import COLUMNS, plan_of
from tests.agents.results.shares import record

TREES = 3
QUERY = "SELECT {0}, count(*) AS n FROM clicks GROUP BY {0}, window(ts, '2 seconds')"
BY_PRODUCT = plan_of(QUERY.format("product"), options=f"trees = {TREES}").definition
BY_CENTS = replace(BY_PRODUCT, query=QUERY.format("cents"))
SPAN = Span(0, 2_000)


def changed(part: int) -> JobRecord:
    """A part that has counted by cents, and counts by product from the second interval on."""
    columns = {name: kind.ddl for name, kind in COLUMNS.items()}
    old, new = (replace(each, part=part, columns=columns) for each in (BY_CENTS, replace(BY_PRODUCT, version=2)))
    versions = (
        Version(number=1, definition=old),
        Version(number=2, definition=new, what="update", since=1, begins=1, pao_kind=2),
    )
    return replace(record(part), definition=new, versions=versions)


class Masters:
    """The masters of all parts; each has the row of the keys that are its own."""

    def __init__(self, counts_by: dict[int, int], job_of: Callable[[int], JobRecord] = changed) -> None:
        self.counts_by, self.job_of = counts_by, job_of
        self.asked: list[tuple[int, int | None]] = []

    async def ask(self, key: str, request: JobRequest, timeout_ms: int) -> Answered:
        assert isinstance(request, AskShare)
        part = int(key.partition("#")[2] or 0)
        self.asked.append((part, request.version))
        job, version = self.job_of(part), self.counts_by.get(part, 1)
        plan = compile_job(next(each.definition for each in job.history if each.number == version), COLUMNS)
        empty = plan.grouped.empty().drop("interval")
        fits = request.version in (None, version)
        columns = pack_rows(plan.ranked(empty, (SPAN.start_ms, SPAN.end_ms))) if fits else []
        label = Label(0, 1, 2, () if fits else ("a", "b"))
        known: dict[str, Any] = {"span": SPAN, "through_ms": 2_000, "edition": 1, "gaps": 0, "names": {}}
        body: Any = msgspec.to_builtins(Shared(job=job, version=version, label=label, columns=columns, **known))
        return body, ["127.0.0.1:1"]


async def asked_for(masters: Masters, key: str | None) -> dict[str, Any]:
    result, _ = await Gathering(masters.ask, Catalogue()).of_parts(masters.job_of(0), SPAN, key)
    return result


async def test_a_key_is_looked_for_everywhere_where_an_older_version_has_keys_of_another_type() -> None:
    old, new = (compile_job(version.definition, COLUMNS) for version in changed(0).history)
    parts = {str(n): (part_of_key(old, str(n)), part_of_key(new, str(n))) for n in range(100)}
    moved = next(key for key, (before, now) in parts.items() if before not in (0, now))
    stays = next(key for key, (before, now) in parts.items() if before == now != 0)
    masters = Masters({})
    assert (await asked_for(masters, moved))["version"] == 1
    first = [(part, None) for part in sorted({0, part_of_key(new, moved)})]
    assert masters.asked == [*first, *((part, None) for part in range(TREES))]
    masters.asked.clear()
    await asked_for(masters, stays)
    assert masters.asked == [(0, None), (part_of_key(new, stays), None)]


async def test_a_key_is_counted_by_the_version_of_the_first_part_as_all_others_are() -> None:
    old, new = (compile_job(version.definition, COLUMNS) for version in changed(0).history)
    key = next(str(n) for n in range(100) if part_of_key(old, str(n)) == part_of_key(new, str(n)) != 0)
    part = part_of_key(new, key)
    assert part is not None
    masters = Masters({0: 2, part: 1})
    result = await asked_for(masters, key)
    assert masters.asked == [(0, None), (part, None), (part, 2)]
    assert result["version"] == 2 and result["completeness"]["missing"] == ["a", "b"]


async def test_of_a_job_that_was_never_changed_only_the_part_of_the_key_is_asked() -> None:
    definition = changed(0).history[0].definition
    masters = Masters({}, lambda part: replace(record(part), definition=replace(definition, part=part)))
    plan = compile_job(definition, COLUMNS)
    key = next(str(n) for n in range(100) if part_of_key(plan, str(n)))
    await asked_for(masters, key)
    assert masters.asked == [(part_of_key(plan, key), None)]


async def test_a_first_part_without_columns_is_no_share() -> None:
    masters = Masters({})
    ask = masters.ask

    async def asks(key: str, request: JobRequest, timeout_ms: int) -> Answered:
        body, hops = await ask(key, request, timeout_ms)
        return {**body, "columns": []}, hops

    with pytest.raises(UnavailableError, match="rows that are none of this job"):
        await Gathering(asks, Catalogue()).of_parts(changed(0), SPAN)


@pytest.mark.parametrize("first", [1, 2])
async def test_a_part_that_counts_a_window_by_another_version_is_asked_again_and_lacks_its_rows(first: int) -> None:
    masters = Masters({0: first, 1: first, 2: 3 - first})
    result = await asked_for(masters, None)
    assert masters.asked == [(0, None), (1, None), (2, None), (2, first)]
    assert result["version"] == first and result["completeness"]["missing"] == ["a", "b"]
    assert result["completeness"]["status"] == "final_incomplete" and result["rows"] == []


@pytest.mark.parametrize(("stopped", "expected"), [(range(TREES), StoppedError), ([1], UnavailableError)])
async def test_a_job_is_stopped_once_its_first_part_is_and_none_of_the_others_says_so_for_all(
    monkeypatch: pytest.MonkeyPatch, stopped: Collection[int], expected: type[Exception]
) -> None:
    masters = Masters({})
    answers = masters.ask

    async def ask(key: str, request: JobRequest, timeout_ms: int) -> Answered:
        if int(key.partition("#")[2] or 0) in stopped:
            raise StoppedError(f"job {key} is stopped")
        return await answers(key, request, timeout_ms)

    monkeypatch.setattr(masters, "ask", ask)
    with pytest.raises(expected, match="is stopped"):
        await asked_for(masters, None)
