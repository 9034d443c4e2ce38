"""What changed since an edition: all panes that did and are still there, however many changes there were."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.completeness.label import Label
from elf.agents.jobs.versions import Versions
from elf.agents.master.news import FORGOTTEN_MAX, News
from elf.agents.master.panes.labels import Labels
from elf.agents.master.panes.past import Change
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
