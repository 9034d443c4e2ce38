"""What an agent owes is exactly what commits went without it and it has not brought."""

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.master.overdue import RUNS_MAX, Owing, is_owed, with_missing, without, without_expired
from elf.agents.master.results import Label
from elf.overlay.contract import NEVER, Commit, RollupState


def missing(owing: Owing, previous: int, through: int, *agents: str) -> Owing:
    return with_missing(owing, Commit(previous, through, None, (), agents, RollupState()))


def owed(owing: Owing, agent: str, most: int) -> set[int]:
    return {each for each in range(most) if is_owed(owing, agent, Label(each - 1, each, 2))}


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.integers(0, 40), st.integers(1, 9)), max_size=30))
def test_it_is_what_was_missed_less_what_was_brought(steps: list[tuple[int, bool, int, int]]) -> None:
    owing: Owing = {}
    truth: set[int] = set()
    committed = -1
    for length, is_missing, after, size in steps:
        if is_missing:
            owing = missing(owing, committed, committed + length, "w1")
            truth |= set(range(committed + 1, committed + length + 1))
        else:
            owing = without(owing, ["w1", "w2"], ((after, after + size),))
            truth -= set(range(after + 1, after + size + 1))
        committed += length
        assert owed(owing, "w1", committed + 2) == truth
        assert ("w1" in owing) == bool(truth)


def test_of_too_many_runs_the_oldest_span_what_is_between_them() -> None:
    owing: Owing = {}
    for number in range(RUNS_MAX + 3):
        owing = missing(owing, 2 * number, 2 * number + 1, "w1")
    assert len(owing["w1"]) == RUNS_MAX
    assert owing["w1"][:2] == ((0, 7), (8, 9))


def test_what_is_no_longer_retained_is_forgotten() -> None:
    owing = missing(missing({}, NEVER, 3, "w1", "w2"), 5, 7, "w1")
    assert without_expired(owing, 3) == {"w1": ((5, 7),)}
    assert without_expired(owing, 2) == owing
