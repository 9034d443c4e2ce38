"""What one query shows of an event is of one event, however many of them come at one time or have equal keys."""

from __future__ import annotations

import itertools
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.errors import JobSpecError
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.language.query import parse_query
from elf.agents.language.ties import Ties
from elf.agents.language.types import SqlType

COLUMNS = {"path": SqlType.STRING, "status": SqlType.BIGINT, "ms": SqlType.DOUBLE}
CALLS = ("first({})", "last({})", "min_by({}, ms)", "max_by({}, ms)", "any_value({})", "last({}) IGNORE NULLS")


def plan_of(query: str) -> Plan:
    return compile_job(Definition(name="x", creator="x", source="clicks", query=query), COLUMNS)


def answer(plan: Plan, events: list[dict[str, Any]], parts: int) -> tuple[Any, ...]:
    schema = {"ts": pl.Datetime("ms"), **{name: kind.dtype for name, kind in COLUMNS.items()}}
    frames = [pl.DataFrame(events[part::parts], schema=schema) for part in range(parts)]
    paos = plan.schema.merge([plan.reduce(frame) for frame in frames])
    (row,) = plan.finish(plan.schema.merge_window([paos]), None).rows()
    return row


PLANS = {
    call: plan_of(f"SELECT {call.format('status')} AS b, {call.format('path')} AS a FROM clicks") for call in CALLS
}
event = st.fixed_dictionaries(
    {
        "ts": st.integers(0, 1).map(lambda at: at * 1_000),
        "path": st.sampled_from(["/a", "/b", "/z"]),
        "status": st.sampled_from([200, 404, 500]),
        "ms": st.sampled_from([9.0, 1.0]),
    }
)
lacking = st.fixed_dictionaries(
    {
        "ts": st.just(0),
        "path": st.sampled_from([None, "/a", "/b"]),
        "status": st.sampled_from([None, 2]),
        "ms": st.just(0.0),
    }
)


@pytest.mark.parametrize("call", CALLS)
@settings(max_examples=40)
@given(events=st.lists(event, min_size=1, max_size=8), parts=st.integers(1, 3))
def test_values_that_go_by_one_order_are_of_one_event(call: str, events: list[dict[str, Any]], parts: int) -> None:
    assert answer(PLANS[call], events, parts) in {(each["status"], each["path"]) for each in events}


@pytest.mark.parametrize("call", CALLS[:4])
@settings(max_examples=30)
@given(events=st.lists(lacking, min_size=1, max_size=6), parts=st.integers(1, 3))
def test_also_where_values_are_null(call: str, events: list[dict[str, Any]], parts: int) -> None:
    assert answer(PLANS[call], events, parts) in {(each["status"], each["path"]) for each in events}


@settings(max_examples=60)
@given(events=st.lists(lacking, min_size=1, max_size=6), parts=st.integers(1, 3))
def test_any_value_is_of_one_event_if_one_has_all_and_null_only_where_none_has_any(
    events: list[dict[str, Any]], parts: int
) -> None:
    status, path = answer(PLANS["any_value({})"], events, parts)
    whole = {(each["status"], each["path"]) for each in events if each["status"] and each["path"]}
    assert not whole or (status, path) in whole
    assert (status is None) == all(each["status"] is None for each in events)
    assert (path is None) == all(each["path"] is None for each in events)


def test_requests_of_one_second_are_not_mixed_up() -> None:
    query = "SELECT last(path) AS a, last(status) AS b, max_by(path, ms) AS c, max_by(status, ms) AS d FROM clicks"
    events = [{"ts": 0, "path": path, "status": status, "ms": 4.0} for path, status in (("/k", 503), ("/y", 204))]
    for some in itertools.permutations(events):
        assert answer(plan_of(query), [*some], 1) == ("/y", 204, "/y", 204)


def test_calls_that_are_filtered_or_skip_nulls_go_by_the_same_order() -> None:
    query = (
        "SELECT last(path) FILTER (WHERE status > 1) AS a, last(status) IGNORE NULLS AS b, last(ms) AS c FROM clicks"
    )
    events = [
        {"ts": 0, "path": "/a", "status": 500, "ms": 1.0},
        {"ts": 0, "path": "/b", "status": 200, "ms": 0.0},
        {"ts": 0, "path": None, "status": None, "ms": 1.0},
    ]
    assert answer(plan_of(query), events, 2) == ("/a", 500, 1.0)


def test_a_single_value_is_kept_alone() -> None:
    calls = "first(path), FIRST(path) FILTER (WHERE ms > 1), last(status), max_by(path, ms), max_by(path, status)"
    query = parse_query(f"SELECT {calls}, min(path), count(*) FROM clicks HAVING last_value((status)) > 1")
    ties = Ties.among(query)
    assert not any(ties.of(item.node) for item in query.items)


def test_what_is_joined_with_the_last_result_is_chosen_by_itself() -> None:
    query = (
        "SELECT e.path AS path, any_value(e.status) AS a, any_value(r.b) AS b, last(e.ms) AS c, last(e.status) AS d "
        "FROM clicks e LEFT JOIN last_result r ON e.path = r.path GROUP BY e.path, window(ts, '4 seconds')"
    )
    ties = Ties.among(parse_query(query))
    found = [len(ties.of(item.node)) for item in parse_query(query).items]
    assert found == [0, 0, 0, 2, 2]
    with pytest.raises(JobSpecError):
        plan_of(query.replace("any_value(r.b)", "last(r.b)"))


def test_what_has_no_type_is_refused_wherever_it_stands() -> None:
    for calls in ("last(path) AS a, last(NULL) AS b", "last(NULL) AS b, last(path) AS a"):
        with pytest.raises(JobSpecError, match="is always NULL"):
            plan_of(f"SELECT {calls} FROM clicks")
