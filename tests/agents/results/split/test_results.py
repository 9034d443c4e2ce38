"""Which results of a job's own master are one side's: those that lack what an agent of the other may still bring."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.completeness.label import Label
from elf.agents.completeness.statement import require_complete
from elf.agents.errors import IncompleteError
from elf.agents.http.stream import identity_of
from elf.agents.master.results import Span, completeness_of, is_awaited
from tests.agents.plans import CUMULATIVE, WINDOWED, plan_of

AGENTS = ["a", "b", "c"]
LABELS = st.lists(
    st.builds(
        Label,
        previous=st.just(0),
        through=st.just(1),
        expected=st.just(3),
        missing=st.lists(st.sampled_from(AGENTS), unique=True).map(tuple),
    ),
    max_size=3,
)
PARTIAL = 'availability = "partial"'


@given(LABELS, st.sets(st.sampled_from(AGENTS)))
def test_data_is_awaited_from_who_is_missing_and_still_on_the_roster(labels: list[Label], roster: set[str]) -> None:
    named = {agent for label in labels for agent in label.missing}
    assert is_awaited(plan_of(options=PARTIAL), labels, roster) == bool(named & roster)
    assert not is_awaited(plan_of(), labels, roster), "a job that did not ask for it knows no such results"
    for straggler in ("drop", "void"):
        dropping = plan_of(options=f'{PARTIAL}\nstraggler = "{straggler}"')
        assert not is_awaited(dropping, labels, roster), "nothing comes any more"


@pytest.mark.parametrize("query", [WINDOWED, CUMULATIVE], ids=["window", "cumulative"])
@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("through_ms", [2_000, 4_000])
def test_a_result_that_awaits_data_is_partial_once_its_window_has_closed(
    query: str, awaited: bool, through_ms: int
) -> None:
    plan = plan_of(query, options=PARTIAL)
    span = None if plan.window is None else Span(0, 4_000)
    label = Label(previous=-1, through=1, expected=3, missing=("b",))
    completeness = completeness_of(plan, span, label, 0, through_ms, str.upper, awaited)
    closed = span is not None and through_ms >= span.end_ms
    expected = "partial" if awaited and (closed or span is None) else "final_incomplete" if closed else "open"
    assert completeness["status"] == expected
    assert completeness["missing"] == ["B"]
    with pytest.raises(IncompleteError, match="one side's" if expected == "partial" else "its window"):
        require_complete("shop/job", completeness)


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.sampled_from(["final", "revised", "final_incomplete"]))
def test_a_reader_never_takes_a_final_result_for_the_partial_one_that_it_has(
    through_ms: int, later_ms: int, status: str
) -> None:
    known = {"revision": 0, "status": "partial"}
    partial = {"window": {"start_ms": 0, "end_ms": 10}, "through_ms": through_ms, "completeness": known}
    final = {**partial, "through_ms": later_ms, "completeness": {**known, "status": status}}
    assert identity_of(partial) != identity_of(final)
