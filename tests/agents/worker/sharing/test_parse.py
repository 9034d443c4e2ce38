"""Jobs of one source that have different types for a column: each gets what it gets without the others."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.language.types import SqlType
from elf.agents.sources.format import parse_chunk
from elf.agents.sources.json_lines import JsonLines
from elf.agents.worker.sharing.description import sharing_of
from elf.agents.worker.sharing.parse import parsings
from elf.agents.worker.sharing.workers import Workers
from elf.agents.worker.worker import Worker
from tests.agents.plans import opened

TYPES = [SqlType.BIGINT, SqlType.DOUBLE, SqlType.STRING]
CALLS = ["count(*)", "count(cents)", "sum(cents)", "max(cents)", "max(product)"]
#: Times count from here; a whole number of intervals after 1970.
BASE_MS = 1_767_225_600_000
FIRST = BASE_MS // 2_000
VALUES = ["1", "2", "3.5", '"7"', "null", '"x"', "true"]


def typed(call: str, cents: SqlType, product: SqlType = SqlType.STRING) -> Plan:
    query = f"SELECT {call} AS x FROM clicks GROUP BY window(ts, '2 seconds')"
    text = f'name = "job"\ncreator = "shop"\nquery = """{query}"""\n[options]\nlateness = "0ms"'
    return compile_job(load_definition(text, filename="job.toml"), {"cents": cents, "product": product})


PLANS = [typed(call, cents) for call in CALLS for cents in TYPES] + [typed("max(product)", TYPES[0], TYPES[0])]
plans = st.lists(st.sampled_from(PLANS), min_size=1, max_size=5)


def read(workers: Workers, values: Sequence[str]) -> None:
    """Let workers read lines with these cents, two in each interval, as their source's pump does."""
    lines = (f'{{"ts":{BASE_MS + at * 1_000},"cents":{cents},"product":{cents}}}\n' for at, cents in enumerate(values))
    chunk = "".join(lines).encode()
    for parsing in workers.parsings({}):
        workers.insert(parse_chunk(JsonLines(), chunk, parsing.columns).events, parsing)
    workers.take_in()


def results(workers: Workers) -> list[object]:
    """Return what each has sealed: rows, late events and gaps."""
    found: list[object] = []
    for worker in workers.values():
        payloads = [each.payload for each in worker.seal(2 * BASE_MS) if each.payload is not None]
        opens = [opened(payload, worker.plan) for payload in payloads]
        found.append([(notes.late, notes.gaps, paos.rows()) for notes, paos in opens])
    return found


def crew(plans: Sequence[Plan]) -> Workers:
    return Workers({bytes([at]): Worker(plan, "w1") for at, plan in enumerate(plans)})


@given(plans, st.lists(st.sampled_from(VALUES), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_what_a_job_computes_does_not_depend_on_the_types_of_others(plans: list[Plan], values: list[str]) -> None:
    together, apart = crew(plans), [crew([plan]) for plan in plans]
    for workers in (together, *apart):
        read(workers, values)
    assert results(together) == [found for workers in apart for found in results(workers)]


@given(plans)
def test_each_plan_has_one_way_to_parse_and_those_that_agree_have_one_together(plans: list[Plan]) -> None:
    anyway = {"product": SqlType.STRING, "other": SqlType.DATE}
    ways = parsings(anyway, plans)
    assert anyway.items() <= ways[0].columns.items()
    for plan in plans:
        (way,) = [each for each in ways if each.is_for(plan)]
        assert plan.columns.items() <= way.columns.items()
    kinds = {tuple(plan.columns.items()) for plan in plans if plan.columns}
    assert len(ways) <= max(1, len(kinds) + 1)
    if all(plan.columns.items() <= {**anyway, "cents": SqlType.BIGINT}.items() for plan in plans):
        assert len(ways) == 1


def test_what_is_shared_leaves_out_jobs_of_other_types() -> None:
    names, calls = ["a", "b", "c"], [("sum(cents)", TYPES[0]), ("max(cents)", TYPES[1]), ("count(cents)", TYPES[0])]
    named = [
        msgspec.structs.replace(plan, definition=msgspec.structs.replace(plan.definition, name=name))
        for name, plan in zip(names, (typed(*each) for each in calls), strict=True)
    ]
    workers = list(crew(named).values())
    told = [sharing_of(plan, workers, {"product": SqlType.STRING}) for plan in named]
    assert [each["parsing"]["jobs"] for each in told] == [["shop/c"], [], ["shop/a"]]
    assert [each["own_columns"] for each in told] == [[], ["cents"], []]


def test_a_job_that_is_changed_to_another_type_counts_each_interval_with_its_own() -> None:
    old, new = typed("sum(cents)", SqlType.BIGINT), typed("sum(cents)", SqlType.DOUBLE)
    definition = msgspec.structs.replace(new.definition, version=2)
    changed = Version(number=2, definition=definition, what="update", since=FIRST + 1, begins=FIRST + 1, pao_kind=2)
    versions = Versions([Compiled(Version(number=1, definition=old.definition), old), Compiled(changed, new)])
    workers = Workers({b"job": Worker(versions, "w1")})
    read(workers, ["1", "2.5", "3", "4.5"])
    paos = workers[b"job"].open.snapshot().by_kind()
    assert [frame.rows() for frame in paos.values()] == [[(FIRST, 1, 0, 1)], [(FIRST + 1, 7.5, 0.0, 2)]]
