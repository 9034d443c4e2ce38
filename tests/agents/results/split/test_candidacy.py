"""Which member of a split root group answers for its side: one of each side, whoever asks."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.results.split.candidacy import Candidate, may_hold, must_yield
from elf.agents.wire.request import decode_request, encode
from elf.agents.wire.split import AskStand, Partake, Question, Seek, Stand, decode_question, encode_question, side_tree
from elf.overlay.ids import Contact
from tests.agents.results.test_location import JOB

KEY = bytes(range(20))
SIDE = KEY[:12] + bytes(8)
PORTS = st.integers(4_000, 4_200)


@st.composite
def members(draw: st.DrawFn, least: int = 1) -> list[Candidate]:
    """Members of one side: nobody among them has a leader, nobody holds."""
    ports = draw(st.lists(PORTS, min_size=least, max_size=6, unique=True))
    stands = [Stand("", False, draw(st.integers(1, 3)), draw(st.integers(1, 3))) for _ in ports]
    return [
        Candidate(f"a{port}", Contact.at("127.0.0.1", port), stand) for port, stand in zip(ports, stands, strict=True)
    ]


def others(side: list[Candidate], me: Candidate) -> list[Candidate]:
    return [member for member in side if member is not me]


def holding(member: Candidate) -> Candidate:
    return member._replace(stand=msgspec.structs.replace(member.stand, holds=True))


@given(members())
def test_of_members_that_reach_each_other_one_answers_the_one_with_most(side: list[Candidate]) -> None:
    chosen = [member for member in side if may_hold(KEY, member, others(side, member))]
    assert len(chosen) == 1
    assert chosen[0].stand.term == max(member.stand.term for member in side)
    assert not must_yield(KEY, holding(chosen[0]), others(side, chosen[0]))


@given(members(least=2), st.data())
def test_one_that_answers_already_goes_on_whoever_joins_it(side: list[Candidate], data: st.DataObject) -> None:
    holder = data.draw(st.sampled_from(side))
    side[side.index(holder)] = holder = holding(holder)
    assert not must_yield(KEY, holder, others(side, holder))
    assert not any(may_hold(KEY, member, others(side, member)) for member in others(side, holder))


@given(members(least=2))
def test_when_sides_meet_one_of_those_that_answer_stays(side: list[Candidate]) -> None:
    side = [holding(member) for member in side]
    assert sum(not must_yield(KEY, member, others(side, member)) for member in side) == 1


@given(members(least=2), st.data())
def test_nobody_answers_beside_one_that_has_a_leader(side: list[Candidate], data: st.DataObject) -> None:
    led = data.draw(st.integers(0, len(side) - 1))
    side[led] = side[led]._replace(stand=msgspec.structs.replace(side[led].stand, leader="far away"))
    for member in side[:led] + side[led + 1 :]:
        assert not may_hold(KEY, member, others(side, member))
        assert must_yield(KEY, holding(member), others(side, member))


def test_a_leader_that_lost_its_majority_answers_though_others_still_follow_it() -> None:
    me = Candidate("old", Contact.at("127.0.0.1", 4_000), Stand("", False, 2, 9))
    follower = Candidate("new", Contact.at("127.0.0.1", 4_001), Stand("old", False, 2, 8))
    assert may_hold(KEY, me, [follower])
    assert not must_yield(KEY, holding(me), [follower])


@pytest.mark.parametrize("question", [AskStand(KEY), Partake(KEY, SIDE, "127.0.0.1:4000"), Seek(KEY)])
def test_questions_travel_as_requests(question: Question) -> None:
    request = decode_request(encode(encode_question(question)))
    assert request == encode_question(question)
    assert decode_question(encode_question(question).body) == question


@pytest.mark.parametrize(
    "fields",
    [
        {"tree": KEY, "side": KEY, "root": "127.0.0.1:4000"},
        {"tree": KEY, "side": bytes(20), "root": "127.0.0.1:4000"},
        {"tree": KEY, "side": SIDE[:19], "root": "127.0.0.1:4000"},
        {"tree": KEY, "side": SIDE, "root": "nowhere"},
        {"tree": KEY, "side": SIDE, "root": "127.0.0.1:-1"},
    ],
)
def test_a_side_is_of_the_job_it_says_and_has_a_root(fields: dict[str, object]) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_question(msgspec.msgpack.encode({"of": "partake", **fields}))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_question_are_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_question(body)


def test_every_side_has_a_tree_of_its_own_near_the_jobs() -> None:
    roots = [Contact.at("127.0.0.1", port) for port in (4_000, 4_001)]
    trees = {side_tree(JOB, root, at_ms) for root in roots for at_ms in (1, 2)}
    assert len(trees) == 4
    assert all(tree[:12] == JOB.tree[:12] and tree != JOB.tree for tree in trees)
