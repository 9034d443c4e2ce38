"""Shares of a result: parts joined give what one tree would give, and labels that are never more optimistic."""

from __future__ import annotations

import pathlib
from typing import Any
from unittest.mock import MagicMock

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.completeness import statement
from elf.agents.completeness.label import Label, join_trees
from elf.agents.errors import UnavailableError
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Version, compile_versions
from elf.agents.master.master import Master
from elf.agents.master.results import Span
from elf.agents.master.share import least_through
from elf.agents.master.state import MasterState
from elf.agents.results.answerer import Mastered
from elf.agents.results.shares import common_span, pack_rows, part_of_key, shape_of, unpack_rows
from elf.agents.store.database import Database
from elf.agents.store.panes import Panes
from elf.agents.wire.shares import AskShare
from elf.cbt import INTERVAL, split
from elf.overlay.contract import NEVER, RollupState, RosterEntry
from tests.agents.plans import COLUMNS, events, plan_of
from tests.agents.results.shares import record, shared

QUERIES = [
    "SELECT product, count(*) AS n FROM clicks GROUP BY product, window(ts, '4 seconds') ORDER BY n DESC LIMIT 4",
    "SELECT product, sum(cents) AS c FROM clicks GROUP BY product HAVING count(*) > 1 ORDER BY avg(cents), product",
    "SELECT count(*) AS n, window.start AS s, collect_set(product) AS all FROM clicks "
    "GROUP BY cents, window(ts, '4 seconds') ORDER BY cents DESC NULLS FIRST",
    "SELECT cents / 7 AS part, product, max(ts) AS last FROM clicks GROUP BY cents, product",
]
PLANS = [plan_of(query, options="trees = 5") for query in QUERIES]
told = st.lists(
    st.tuples(st.integers(0, 3_999), st.none() | st.sampled_from("abcdefgh"), st.none() | st.integers(-3, 9)),
    max_size=40,
)


def paos_of(plan: Plan, rows: list[tuple[int, str | None, int | None]]) -> pl.DataFrame:
    return plan.schema.merge([plan.schema.at_zero(plan.reduce(events(rows)))])


def over_the_wire(ranked: pl.DataFrame, plan: Plan) -> pl.DataFrame:
    columns: list[list[Any]] = msgspec.msgpack.decode(msgspec.msgpack.encode(pack_rows(ranked)))
    return unpack_rows(columns, shape_of(plan))


@pytest.mark.parametrize("plan", PLANS, ids=range(len(PLANS)))
@given(rows=told, limit=st.none() | st.integers(1, 6))
@settings(max_examples=40)
def test_the_rows_of_all_parts_are_those_of_one_tree(
    plan: Plan, rows: list[tuple[int, str | None, int | None]], limit: int | None
) -> None:
    window = None if plan.window is None else (0, 4_000)
    paos = paos_of(plan, rows)
    shares = [
        over_the_wire(plan.ranked(part.drop(INTERVAL), window, limit), plan) for part in split(paos, plan.schema, 5)
    ]
    whole = plan.finish(paos.drop(INTERVAL), window)
    wanted = whole if limit is None else whole.head(limit)
    assert plan.join(shares, limit).equals(wanted, null_equal=True)
    for own in (limit, None):
        assert plan.join([plan.ranked(paos.drop(INTERVAL), window, own)], limit).equals(wanted, null_equal=True)


@pytest.mark.parametrize(
    "columns", [[], [["a"], [1, 2]], [["a"], ["b"]], [[1], [1]], [["a"], [2**70]], [["a"], [None, {}]]]
)
def test_rows_that_are_none_of_the_job_are_refused(columns: list[list[Any]]) -> None:
    plan = plan_of("SELECT product, count(*) AS n FROM clicks GROUP BY product", options="trees = 5")
    with pytest.raises(UnavailableError, match="rows that are none of this job"):
        unpack_rows(columns, shape_of(plan))


@given(told)
def test_a_key_is_looked_for_in_its_part(rows: list[tuple[int, str | None, int | None]]) -> None:
    for column in ("product", "cents"):
        plan = plan_of(f"SELECT {column}, count(*) AS n FROM clicks GROUP BY {column}", options="trees = 5")
        for number, part in enumerate(split(paos_of(plan, rows), plan.schema, 5)):
            for key in part["k0"].drop_nulls().cast(pl.String).to_list():
                assert part_of_key(plan, key) == number


@pytest.mark.parametrize(
    ("grouped", "key"), [("product, cents", "a"), ("cents", "x"), ("cents", "07"), ("cents > 1", "yes")]
)
def test_all_parts_are_asked_where_the_text_of_a_key_does_not_tell_which(grouped: str, key: str) -> None:
    plan = plan_of(f"SELECT count(*) AS n FROM clicks GROUP BY {grouped}", options="trees = 5")
    assert part_of_key(plan, key) is None


labels = st.builds(
    Label,
    st.just(3),
    st.integers(4, 9),
    st.integers(0, 5),
    st.lists(st.sampled_from("abcd"), max_size=3, unique=True).map(lambda agents: tuple(sorted(agents))),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 3),
)


@given(st.lists(labels, min_size=1, max_size=5))
def test_a_joined_label_is_as_complete_as_the_least_complete(parts: list[Label]) -> None:
    label = join_trees(parts)
    assert all(set(each.missing) <= set(label.missing) for each in parts)
    assert label.expected - len(label.missing) >= 0
    for each in parts:
        assert label.through <= each.through and label.revision >= each.revision
        for field in ("late", "shed", "void", "damaged"):
            assert getattr(label, field) >= getattr(each, field)


def test_an_interval_that_is_void_in_all_parts_is_void_once_and_every_change_is_a_revision() -> None:
    label = join_trees([Label(3, 9, 2, void=4, revision=2), Label(3, 9, 2, void=4, revision=1)])
    assert (label.void, label.revision) == (4, 3)
    assert join_trees([Label(3, 9, 2, void=4, rejected=7), Label(3, 9, 2, rejected=5)]).rejected == 7


def test_a_job_over_others_expects_as_many_agents_as_the_job_that_it_reads_lacks() -> None:
    known = {"reported": 0, "status": "final_incomplete", "semantics": "exactly-once"}
    gone = {**known, "expected": 1, "missing": ["a", "b"]}
    joined = statement.joined([gone, {**known, "expected": 1, "missing": ["b"]}])
    assert (joined["expected"], joined["reported"], joined["missing"]) == (2, 0, ["a", "b"])


def test_rows_that_are_left_out_add_up_for_parts_have_keys_of_their_own() -> None:
    assert join_trees([Label(3, 9, 2, shed=2, late=2), Label(3, 9, 2, shed=1, late=2)]).shed == 3


def test_all_answer_for_the_window_of_the_part_that_is_furthest_behind() -> None:
    shares = [shared(part, span, through) for part, span, through in [(0, Span(2, 4), 4), (1, Span(0, 2), 3)]]
    assert common_span(shares) == Span(0, 2) and least_through([each.through_ms for each in shares]) == 3
    begins = shared(2, Span(-2, 0), None)
    assert common_span([*shares, begins]) == Span(0, 2) and least_through([3, None]) is None
    assert common_span([begins]) == Span(-2, 0)


def test_shares_of_a_job_that_reads_its_last_result_are_rows_of_its_groups() -> None:
    plan = plan_of(
        "SELECT c.product, sum(c.cents + coalesce(r.cents, 0)) AS cents FROM clicks c LEFT JOIN last_result r "
        "ON c.product = r.product GROUP BY c.product, window(ts, '4 seconds')"
    )
    assert plan.iterating is not None
    last = pl.DataFrame({"product": ["a"], "cents": [40]}, {"product": pl.String, "cents": pl.Int64})
    paos = paos_of(plan, [(0, "a", 1), (1, "a", 1), (2, "b", 5)]).drop(INTERVAL)
    ranked = plan.ranked(plan.iterating.regroup(paos, last), (0, 4_000))
    assert over_the_wire(ranked, plan).rows() == [("a", 82), ("b", 5)]


TOTALS = replace(PLANS[1].definition, part=1, columns={name: kind.ddl for name, kind in COLUMNS.items()})
VERSIONS = [
    Version(number=1, definition=replace(TOTALS, version=1)),
    Version(number=2, definition=replace(TOTALS, version=2), what="reset", since=5, begins=5, pao_kind=2),
]
JOB = replace(record(1), definition=VERSIONS[-1].definition, versions=tuple(VERSIONS))


@pytest.mark.parametrize(("version", "missing"), [(None, ()), (2, ()), (1, ("a", "gone"))])
async def test_a_part_that_counts_by_another_version_has_no_rows_and_names_whoever_may_have_brought_some(
    tmp_path: pathlib.Path, version: int | None, missing: tuple[str, ...]
) -> None:
    entry = RosterEntry(admitted=NEVER)
    state = MasterState(rollup=RollupState(7, {"a": entry}, {"gone": entry}), since={2: {"a": 5, "gone": 5}})
    database = Database(tmp_path / "state.db")
    master = Master(compile_versions(JOB.history), Panes(database), msgspec.msgpack.encode(state))
    masters = MagicMock(job=lambda app: JOB, master=lambda app: master, name_of=str)
    part = Mastered(masters, JOB.definition.app_id)
    body = await part.share(AskShare(JOB.definition.app_id, "latest", version=version))
    database.close()
    assert (body["version"], body["label"]["missing"]) == (2, missing)
    assert bool(body["columns"]) != bool(missing)
