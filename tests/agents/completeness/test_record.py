"""Records keep what is lacking in fields that agents of all releases know."""

import msgspec
from hypothesis import given

from elf.agents.completeness.lacks import Cause, Lacks
from elf.agents.master.state import MasterState, restored
from elf.agents.worker.payload import Notes
from elf.overlay.contract import NEVER
from tests.agents.completeness.examples import lacks

#: Of the others the master knows by other records: of versions, and of what is brought.
STATED = [cause for cause in Cause if cause is not Cause.VERSION]
NOTED = [cause for cause in STATED if cause is not Cause.MISSED]


def begun(known: Lacks) -> Lacks:
    """What began late lacks all of before."""
    began = {agent: ((NEVER, runs[-1][1]),) for agent, runs in known.named.get(Cause.BEGAN, {}).items()}
    return known | Lacks.told({Cause.BEGAN: began})


@given(lacks)
def test_a_state_holds_what_it_was_given(known: Lacks) -> None:
    known = begun(known.only(*STATED) | Lacks(gaps=known.gaps))
    state = MasterState(edition=4).with_lacks(known, edition=5)
    assert (state.lacks, state.edition) == (known, 5)
    assert restored(msgspec.msgpack.encode(state)).lacks == known


@given(lacks, lacks)
def test_notes_are_merged_as_their_lacks_are_in_either_order(one: Lacks, two: Lacks) -> None:
    one, two = (begun(each.only(*NOTED) | Lacks(gaps=each.gaps)) for each in (one, two))
    first = Notes(late=1, mistyped={"x": ((3, 3, 1),)}).with_lacks(one)
    second = Notes(rejected=2, lines=9, misread=True, mistyped={"x": ((2, 2, 4), (3, 3, 1))}).with_lacks(two)
    assert (first + second).lacks == one | two
    assert (first + second).mistyped == {"x": ((2, 2, 4), (3, 3, 2))}
    assert first + second == second + first


def test_what_an_earlier_release_wrote_is_read() -> None:
    written = {
        "partial_before": {"a": 7},
        "lost": {"b": [[4, 6], [5, 9], [9, 10]]},
        "owing": {"c": [[NEVER, 3]]},
        "gaps": [[8, 9], [1, 2], [1, 2]],
        "backfilled": [[2, 4]],
    }
    state = restored(msgspec.msgpack.encode(written))
    assert state.lacks.named == {
        Cause.BEGAN: {"a": ((NEVER, 6),)},
        Cause.CRASH: {"b": ((4, 10),)},
        Cause.MISSED: {"c": ((NEVER, 3),)},
    }
    assert (state.lacks.gaps, state.archived) == (((1, 2), (1, 2), (8, 9)), ((1, 4),))
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(state.with_lacks(state.lacks)))
    assert set(written) < set(fields) and fields["owing"] == written["owing"]
    assert (fields["partial_before"], fields["lost"]) == ({"a": 7}, {"b": [[4, 10]]})
