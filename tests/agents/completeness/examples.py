"""Lacks and labels that Hypothesis draws."""

from hypothesis import strategies as st

from elf.agents.completeness.label import Label
from elf.agents.completeness.lacks import Cause, Lack, Lacks
from elf.agents.completeness.tallies import tallied

MOST = 30
AGENTS = "abcd"

runs = st.tuples(st.integers(0, MOST), st.integers(0, MOST)).map(sorted)
named = st.builds(
    lambda agent, run, cause: Lack(agent, run[0], run[1], cause),
    st.sampled_from(AGENTS),
    runs,
    st.sampled_from([cause for cause in Cause if cause is not Cause.GAP]),
)
gaps = runs.map(lambda run: Lack(None, run[0], run[1], Cause.GAP))
some = st.lists(named | gaps, max_size=12)
lacks = some.map(Lacks.of)
names = st.lists(st.sampled_from(AGENTS), max_size=3, unique=True).map(lambda agents: tuple(sorted(agents)))
count = st.integers(0, 3)
columns = st.sampled_from("xyz")
told = st.lists(st.builds(lambda name, run, n: (name, *run, n), columns, runs, count), max_size=8)
tallies = told.map(tallied)
counts = st.dictionaries(columns, st.integers(1, 4)).map(lambda known: tuple(sorted(known.items())))


@st.composite
def labels(draw: st.DrawFn, previous: int | None = None) -> Label:
    """A label of a pane; its run follows `previous`, or begins anywhere."""
    before = draw(st.integers(0, MOST)) if previous is None else previous
    through = before + draw(st.integers(1, 5))
    void = draw(st.sampled_from((0, through - before)))
    numbers = {
        name: draw(count) for name in ("late", "shed", "revision", "damaged", "changed", "rejected", "lines", "misread")
    }
    mistyped = draw(counts)
    return Label(before, through, draw(st.integers(0, 5)), draw(names), void=void, mistyped=mistyped, **numbers)


@st.composite
def following(draw: st.DrawFn) -> list[Label]:
    """Labels of panes that follow each other."""
    found = [draw(labels())]
    for _ in range(draw(st.integers(0, 5))):
        found.append(draw(labels(found[-1].through)))
    return found
