"""Plans with the same keys and aggregates hold what these are once, and plans with others do not."""

from __future__ import annotations

import gc
import weakref

import polars as pl
import pytest

from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.language.types import SqlType
from elf.cbt import INTERVAL

TYPES = {"k": SqlType.STRING, "n": SqlType.BIGINT}


def plan_of(name: str, query: str) -> Plan:
    return compile_job(Definition(name=name, creator="ops", source="s", query=query, columns={}), TYPES)


def test_jobs_that_differ_in_filter_and_window_share_their_shape() -> None:
    one = plan_of("one", "SELECT k, sum(n) AS n FROM s WHERE n > 1 GROUP BY k, window(ts, '10 seconds')")
    two = plan_of("two", "SELECT k AS key, sum(n) AS m FROM s GROUP BY k, window(ts, '1 minute') HAVING sum(n) > 2")
    assert one.schema is two.schema and one._shape is two._shape


def test_what_is_counted_makes_another_shape() -> None:
    every = plan_of("every", "SELECT k, count(*) AS n FROM s GROUP BY k")
    known = plan_of("known", "SELECT k, count(n) AS n FROM s GROUP BY k")
    events = pl.DataFrame(
        {"ts": pl.Series([0, 1]).cast(pl.Datetime("ms")), "k": ["a", "a"], "n": pl.Series([7, None], dtype=pl.Int64)}
    )
    for plan, count in ((every, 2), (known, 1)):
        assert plan.reduce(events).drop(INTERVAL).rows() == [("a", count)]


@pytest.mark.usefixtures("fresh_plans")
def test_a_shape_goes_with_its_last_plan() -> None:
    plan = plan_of("brief", "SELECT max(n) AS most, min(n) AS least FROM s")
    shape = weakref.ref(plan._shape)
    del plan
    gc.collect()
    assert shape() is None
