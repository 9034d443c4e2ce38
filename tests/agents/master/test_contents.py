"""A commit holds what peers have sent: nothing in it costs a job its past, stops it, or grows its state for ever."""

import msgspec
import polars as pl
import pytest

from elf.agents.completeness.lacks import GAPS_MAX
from elf.agents.completeness.runs import bounded
from elf.agents.completeness.tallies import COUNT_MAX
from elf.agents.master.contents import content_of, expired
from elf.agents.master.panes.past import Change
from elf.agents.master.state import Base, MasterState
from elf.agents.worker.payload import Notes, merge, pack
from elf.cbt import INTERVAL, PaoDecodeError
from elf.overlay.contract import Commit, RollupState
from tests.agents.plans import events, plan_of

PLAN = plan_of()
ROWS = PLAN.reduce(events([(0, "a", 1), (2_000, "b", 1)]))


def commit_of(notes: Notes, rows: pl.DataFrame = ROWS) -> Commit:
    return Commit(-1, 1, pack(notes, rows), ("w1", "w2"), ("w3",), RollupState(committed=1))


@pytest.mark.parametrize("interval", [2, 10**9, (1 << 63) - 1])
def test_rows_of_intervals_that_are_not_closed_are_left_out_and_said_to_be(interval: int) -> None:
    ahead = PLAN.reduce(events([(0, "c", 1)])).with_columns(pl.lit(interval, dtype=pl.Int64).alias(INTERVAL))
    notes, rows = content_of(commit_of(Notes(late=3), pl.concat([ROWS, ahead])), PLAN)
    assert rows is not None
    assert rows.by_kind()[0].sort(INTERVAL).equals(ROWS.sort(INTERVAL))
    assert notes == Notes(late=3, gaps=((1, 1),))


def test_agents_speak_for_themselves() -> None:
    others = {f"x{number}": ((0, 1),) for number in range(100)}
    told = Notes(partial_before={"w1": 1, "w3": 1, "x": 1}, lost={"w2": ((0, 1),), **others}, settles={"w1": ((0, 1),)})
    notes, _ = content_of(commit_of(told), PLAN)
    assert notes == Notes(partial_before={"w1": 1}, lost={"w2": ((0, 1),)}, settles={"w1": ((0, 1),)})


def test_many_gaps_become_few_that_hold_them() -> None:
    gaps = tuple((number, number + 1) for number in range(3 * GAPS_MAX))
    notes, _ = content_of(commit_of(Notes(gaps=gaps)), PLAN)
    assert notes.gaps == bounded(gaps, GAPS_MAX)
    assert len(notes.gaps) == GAPS_MAX
    assert notes.gaps[0] == (0, 2 * GAPS_MAX + 1)


@pytest.mark.parametrize(
    "notes",
    [
        {"late": -1},
        {"rejected": (1 << 64) - 1},
        {"gaps": [[-(1 << 63), 0]]},
        {"partial_before": {"w1": (1 << 64) - 1}},
        {"settles": {"w1": [[0, (1 << 64) - 1]]}},
        {"lost": {"w1": [[-(1 << 63), 0]]}},
    ],
    ids=repr,
)
def test_numbers_that_no_agent_counts_to_are_no_payload(notes: dict[str, object]) -> None:
    whole: list[object] = msgspec.msgpack.decode(pack(Notes(late=1), ROWS) or b"")
    with pytest.raises(PaoDecodeError):
        merge([msgspec.msgpack.encode([notes, whole[1]])], PLAN)


def test_what_is_merged_can_be_merged_again() -> None:
    most = pack(Notes(late=COUNT_MAX, rejected=COUNT_MAX), ROWS)
    assert most is not None
    twice = merge([most, most], PLAN)
    notes, _ = content_of(Commit(-1, 1, merge([twice, most], PLAN), ("w1",), (), RollupState()), PLAN)
    assert (notes.late, notes.rejected) == (COUNT_MAX, COUNT_MAX)


def test_what_agents_lacked_of_expired_intervals_is_forgotten_with_these() -> None:
    state = MasterState(partial_before={"w1": 3, "w2": 8, "w3": 9}, lost={"w1": ((0, 7),), "w2": ((0, 7), (7, 8))})
    found = expired(Change(), state, 7)
    assert (found.partial_before, found.lost) == ({"w3": 9}, {"w2": ((7, 8),)})
    # Results that follow from all before them still lack it.
    found = expired(Change(), msgspec.structs.replace(state, base=Base(end_ms=0)), 7)
    assert found.partial_before == state.partial_before
