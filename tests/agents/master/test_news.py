"""What changed since an edition: all panes that did and are still there, however many changes there were."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.completeness.label import RUNS_MAX, Label
from elf.agents.jobs.versions import Versions
from elf.agents.master.news import FORGOTTEN_MAX, News
from elf.agents.master.panes.labels import Labels
from elf.agents.master.panes.past import Change, Late
from elf.overlay.contract import NEVER
from tests.agents.plans import plan_of

VERSIONS = Versions.of(plan_of())
#: Panes that change, panes that go, and whether another edition begins.
steps = st.lists(
    st.tuples(st.sets(st.integers(0, 9), max_size=6), st.sets(st.integers(0, 9), max_size=2), st.booleans())
)


def label(key: int) -> Label:
    return Label(previous=key - 1, through=key, expected=1)


@settings(max_examples=80)
@given(steps, st.integers(0, 20), st.integers(1, 40))
def test_runs_since_an_edition_are_those_of_the_panes_that_changed(
    done: list[tuple[set[int], set[int], bool]], since: int, times: int
) -> None:
    labels = Labels({key: label(key) for key in range(10)})
    news, edition = News(VERSIONS, labels, 0), 1
    for changed, gone, goes_on in done * times:
        edition += goes_on
        change = Change()
        change.labels = {key: (labels.get(key) or label(key)).changed_by(edition) for key in changed - gone}
        change.expired = sorted(gone)
        labels.replace(change.labels, change.gone)
        news.committed(change, edition, None, None, 0)
        assert len(news._changed) <= FORGOTTEN_MAX + 3 * 10
    wanted = sorted((each.changed, each.through) for each in labels.all() if each.changed > since)
    found = news._runs_since(since, 0, iterates=False)
    assert found == [(VERSIONS.start_ms(key), VERSIONS.end_ms(key)) for _, key in wanted]
    again = News(VERSIONS, labels, edition)
    assert again._runs_since(since, 0, iterates=False) == found


#: Panes of several intervals: the first, whose run has no beginning, a long one of an idle time, and short ones.
RUNS = [(NEVER, 9), (9, 30), (30, 31), (31, 32), (32, 36)]
#: Intervals that late rows come for, some long before the first pane, and panes that an agent's data has come to.
changes = st.lists(
    st.tuples(st.sets(st.integers(-700, 36), max_size=4), st.sets(st.sampled_from([9, 30, 31]), max_size=1)),
    max_size=12,
)


@settings(max_examples=150)
@given(changes, st.integers(0, 12))
def test_late_rows_change_the_intervals_that_they_are_of_and_no_others(
    done: list[tuple[set[int], set[int]]], since: int
) -> None:
    labels = Labels({through: Label(previous=previous, through=through, expected=1) for previous, through in RUNS})
    news, wanted = News(VERSIONS, labels, 0), set[int]()
    for edition, (late, found) in enumerate(done, 1):
        change = Change()
        for interval in sorted(late):
            (key,) = labels.holding(interval, interval)
            change.labels[key] = (change.labels.get(key) or labels[key]).revised()
            change.late.append(Late(interval, interval, pl.DataFrame()))
        for key in found:
            change.labels[key] = (change.labels.get(key) or labels[key]).revised()
        news.stamp(change, edition, [])
        labels.replace(change.labels, ())
        news.committed(change, edition, None, None, 0)
        whole = {each for key in found for each in range(max(labels[key].previous, 8) + 1, key + 1)}
        wanted |= late | whole if edition > since else set()
    told = intervals(news._runs_since(since, 0, iterates=False))
    assert wanted <= told
    if sum(len(late) for late, _ in done) <= RUNS_MAX and not any(found for _, found in done):
        assert told == wanted
    again = intervals(News(VERSIONS, labels, len(done))._runs_since(since, 0, iterates=False))
    assert told <= again


def intervals(runs: list[tuple[int, int]]) -> set[int]:
    known = [VERSIONS.within(*run) for run in runs]
    return {each for first, last in known for each in range(first, last + 1)}
