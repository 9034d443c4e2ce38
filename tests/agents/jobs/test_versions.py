"""Which version counts an interval, when PAOs of two versions are the same, and which changes agents can follow."""

from __future__ import annotations

import itertools
from collections import Counter

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.errors import JobSpecError
from elf.agents.jobs.halves import interval_of
from elf.agents.jobs.intervals import Numbering
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import (
    ALWAYS,
    Compiled,
    Version,
    Versions,
    check_change,
    compile_versions,
    has_same_states,
)
from elf.overlay.contract import NEVER
from tests.agents.plans import CUMULATIVE, WINDOWED, plan_of

PLAN = plan_of()


def versions_of(*since: int, plan: Plan = PLAN) -> Versions:
    """Versions 1, 2, ... of which each but the first begins at an interval, with PAOs of its own."""
    made = [Compiled(Version(number=1, definition=plan.definition), plan)]
    for number, first in enumerate(since, start=2):
        version = Version(number=number, definition=plan.definition, since=first, begins=first, pao_kind=number)
        made.append(Compiled(version, plan))
    return Versions(made)


@given(st.lists(st.integers(0, 20), max_size=6).map(sorted), st.integers(-5, 25))
def test_each_interval_has_the_last_version_that_begins_by_then(since: list[int], interval: int) -> None:
    versions = versions_of(*since)
    expected = 1 + sum(first <= interval for first in since)
    assert versions.at(interval).version.number == expected
    runs = list(versions.runs())
    assert [run.version.number for run in runs if run.first <= interval <= run.last] == [expected]
    assert runs[0].first == NEVER and all(run.first <= run.last for run in runs)
    assert all(before.last + 1 == after.first for before, after in itertools.pairwise(runs))


@given(st.lists(st.integers(0, 20), max_size=6).map(sorted), st.integers(-5, 25), st.integers(0, 10))
def test_a_run_is_divided_where_the_version_changes(since: list[int], after: int, length: int) -> None:
    versions, through = versions_of(*since), after + length
    edges = [after, *(first - 1 for first in versions.boundaries(after, through)), through]
    for previous, last in itertools.pairwise(edges):
        assert {versions.at(at).version.number for at in range(previous + 1, last + 1)} <= {
            versions.at(last).version.number
        }


@given(st.lists(st.integers(0, 20), max_size=6).map(sorted), st.integers(-5, 25))
def test_windows_have_nothing_of_before_a_beginning_and_all_else_is_as_it_was(since: list[int], interval: int) -> None:
    versions = versions_of(*since)
    begun = versions.beginning(interval)
    assert [each.version.begins for each in begun.all] == [max(interval, at) for at in (NEVER, *since)]
    assert [(each.version.since, each.version.pao_kind, each.plan) for each in begun.all] == [
        (each.version.since, each.version.pao_kind, each.plan) for each in versions.all
    ]
    assert begun.beginning(interval) is begun and begun.beginning(interval - 1) is begun
    assert versions.beginning(NEVER) is versions


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9_000)), max_size=6).map(sorted), st.integers(0, 50_000))
def test_the_watermark_that_closes_the_next_interval_is_known(later: list[tuple[int, int]], watermark_ms: int) -> None:
    versions = Versions(
        [
            each._replace(plan=plan_of(lateness_ms=lateness_ms))
            for each, lateness_ms in zip(
                versions_of(*(first for first, _ in later)).all, [0, *(ms for _, ms in later)], strict=True
            )
        ]
    )
    closed = versions.closed(watermark_ms)
    closing_ms = versions.closing_ms(closed + 1)
    assert watermark_ms < closing_ms and versions.closed(closing_ms - 1) == closed < versions.closed(closing_ms)
    stop = Version(number=9, definition=PLAN.definition, what="stop", since=closed + 1, ends_ms=1)
    stopped = Versions([*versions_of().all, Compiled(stop, PLAN)])
    assert stopped.closing_ms(closed + 1) == ALWAYS > stopped.closing_ms(closed)


@given(
    st.lists(st.tuples(st.sampled_from((1_000, 2_000, 3_000, 7_000)), st.integers(0, 30)), max_size=5),
    st.lists(st.integers(-50_000, 300_000), min_size=1, max_size=30),
)
def test_numbers_go_on_where_intervals_become_longer_or_shorter(
    changes: list[tuple[int, int]], times: list[int]
) -> None:
    """Each time is in the interval that begins last before it, and the numbers are those of a count."""
    made, numbering, since = [Compiled(Version(number=1, definition=PLAN.definition), PLAN)], PLAN.numbering, 0
    for number, (length_ms, later) in enumerate(changes, start=2):
        since, shift = numbering.followed_by(length_ms, since + later)
        definition = replace(PLAN.definition, shift=shift, version=number)
        version = Version(number=number, definition=definition, since=since, begins=since, pao_kind=number)
        numbering = Numbering(length_ms, shift)
        made.append(Compiled(version, replace(PLAN, numbering=numbering)))
    versions = Versions(made)
    starts = [versions.start_ms(each) for each in range(-30, 400)]
    assert all(start < end for start, end in itertools.pairwise(starts)), "each begins after the one before"
    assert all(versions.end_ms(each) == end for each, end in zip(range(-30, 399), starts[1:], strict=True))
    for at_ms in times:
        interval = versions.number(at_ms)
        assert versions.start_ms(interval) <= at_ms < versions.end_ms(interval)
        assert versions.at(interval).plan.interval_ms == versions.end_ms(interval) - versions.start_ms(interval)
        first_ms, until_ms = next(each.span_ms for each in versions.runs() if each.first <= interval <= each.last)
        assert first_ms <= at_ms < until_ms
        frame = pl.DataFrame({"at": [at_ms]})
        assert frame.select(interval_of(pl.col("at"), versions.at(interval).plan.numbering)).item() == interval
        assert versions.within(at_ms, at_ms + 1) == (interval, interval)
        back = versions.retained(interval, PLAN)
        assert versions.start_ms(interval) - versions.end_ms(back) < PLAN.retained * PLAN.interval_ms
        assert versions.start_ms(back) <= versions.start_ms(interval) - PLAN.retained * PLAN.interval_ms
    assert versions.counts_of(pl.Series(times)) == Counter(map(versions.number, times))
    assert versions.renumbered(1) == next(
        (version.since for version, plan in versions.all if plan.numbering != PLAN.numbering), ALWAYS
    )


def test_pauses_count_nothing() -> None:
    version = Version(number=2, definition=PLAN.definition, what="pause", since=5)
    versions = Versions([*Versions.of(PLAN).all, Compiled(version, PLAN)])
    assert versions.counts(0, 4) and not versions.counts(0, 5)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (("ORDER BY n DESC, product", "HAVING n > 1 ORDER BY product LIMIT 3"), True),
        (("'4 seconds', '2 seconds'", "'20 seconds', '2 seconds'"), True),
        (("sum(cents)", "SUM( cents )"), True),
        (("FROM clicks", "FROM clicks WHERE cents > 1"), False),
        (("sum(cents)", "max(cents)"), False),
        (("sum(cents)", "sum(cents + 1)"), False),
        (("GROUP BY product", "GROUP BY upper(product)"), False),
        (("GROUP BY product", "GROUP BY product, cents"), False),
    ],
)
def test_paos_are_the_same_where_only_the_master_works_otherwise(change: tuple[str, str], same: bool) -> None:
    query = WINDOWED.replace(*change)
    assert query != WINDOWED
    if "upper" in query:
        query = query.replace("SELECT product", "SELECT upper(product) AS product").replace("DESC, product", "DESC")
    other = plan_of(query)
    assert has_same_states(PLAN, other) is has_same_states(other, PLAN) is same


@pytest.mark.parametrize(
    ("query", "options", "why"),
    [
        (CUMULATIVE, 'interval = "2s"', "it has a window, and the new query has none"),
        (
            WINDOWED.replace("'4 seconds', '2 seconds'", "'601 seconds'"),
            "",
            "its intervals are 2 seconds long, and would be 601 seconds; both begin together only every "
            "20 minutes 2 seconds, and 10 minutes 1 second is the most",
        ),
        (WINDOWED, "trees = 2", "trees is 1, and would be 2"),
        (WINDOWED, 'semantics = "at-most-once"', "semantics is exactly-once, and would be at-most-once"),
        (WINDOWED, "replicas = 2", "replicas is not set, and would be 2"),
    ],
)
def test_what_agents_cannot_follow_is_refused(query: str, options: str, why: str) -> None:
    with pytest.raises(JobSpecError, match=f"a running job cannot change so: {why} .stop it and publish it anew"):
        check_change(PLAN, plan_of(query, options=options))
    check_change(PLAN, plan_of(WINDOWED, lateness_ms=500, options='straggler = "drop"'))


def test_intervals_become_longer_or_shorter_where_windows_can_begin_anew() -> None:
    for window in ("'4 seconds', '1 second'", "'300 seconds'", "'7 seconds'"):
        check_change(PLAN, plan_of(WINDOWED.replace("'4 seconds', '2 seconds'", window)))
    with pytest.raises(JobSpecError, match="long, and would be 2 seconds; without a window nothing begins anew with"):
        check_change(plan_of(CUMULATIVE), plan_of(CUMULATIVE, options='interval = "2s"'))


@pytest.mark.parametrize(
    ("query", "kind", "why"),
    [
        (WINDOWED.replace("sum(cents)", "max(cents)"), 0, "says it has the PAOs"),
        (WINDOWED.replace("'4 seconds', '2 seconds'", "'3 seconds'"), 2, "has other intervals"),
        (CUMULATIVE, 2, "has a window where"),
        (WINDOWED.replace("'4 seconds', '2 seconds'", "'3 seconds'"), 0, "has other intervals"),
    ],
)
def test_versions_that_disagree_are_refused(query: str, kind: int, why: str) -> None:
    """Else each event fails, and is looked for alone, for as long as the job runs."""
    first = replace(PLAN.definition, columns={"product": "STRING", "cents": "BIGINT"})
    second = replace(first, query=query, version=2)
    made = [Version(number=1, definition=first), Version(number=2, definition=second, since=3, pao_kind=kind)]
    with pytest.raises(JobSpecError, match=f"version 2 {why}"):
        compile_versions(made)
    assert len(compile_versions([made[0], replace(made[1], definition=replace(first, version=2))]).all) == 2


def test_the_kind_of_paos_keeps_its_name_between_releases() -> None:
    made = Version(number=2, definition=PLAN.definition, since=3, pao_kind=2)
    assert msgspec.to_builtins(made)["states"] == 2
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Version) == made


def test_what_is_compiled_already_is_taken_from_there() -> None:
    definition = replace(PLAN.definition, columns={"product": "STRING", "cents": "BIGINT"})
    first = Version(number=1, definition=definition)
    second = Version(number=2, definition=replace(definition, version=2), since=3)
    known = compile_versions([first])
    both = compile_versions([first, second], known)
    assert both.all[0].plan is known.all[0].plan and both.newest.version == second
    assert both.numbered(2) == both.newest and both.numbered(3) is None
