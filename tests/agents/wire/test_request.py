"""Requests cross the network as themselves; any other bytes are refused."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.jobs.versions import Version
from elf.agents.wire.placement import Install, Weigh
from elf.agents.wire.questions import Describe, Follow, Locate, Query, Stop
from elf.agents.wire.records import JobRecord, Member, contact_at
from elf.agents.wire.request import AnyRequest, decode_request, encode
from elf.agents.wire.root_groups import Enlist
from elf.agents.wire.shares import AskShare
from elf.agents.wire.sources import DescribeSource, Spread
from elf.overlay.decoding import read_msgpack
from elf.overlay.ids import prefix_bits
from elf.overlay.placement import candidate_key
from tests.agents.plans import plan_of

JOB = JobRecord(
    definition=plan_of().definition, master_host="127.0.0.1", master_port=1, published_ms=1, instance="i", stamp_ms=1
)
APP = JOB.definition.app_id


@pytest.mark.parametrize(
    "request_",
    [
        Query(b"a" * 20, "latest"),
        Follow(b"a" * 20, 3, 0, 1_000),
        Describe(b"a" * 20),
        Weigh(b"a" * 20, "127.0.0.1:1", hold=False),
        Locate(b"a" * 20),
        Locate(b"a" * 20, Query(b"a" * 20, "latest")),
    ],
    ids=repr,
)
def test_requests_round_trip(request_: Query | Follow | Describe | Weigh | Locate) -> None:
    assert decode_request(encode(request_)) == request_


@given(st.binary(max_size=100))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    with contextlib.suppress(msgspec.DecodeError):
        decode_request(data)


def test_an_address_is_a_contact() -> None:
    assert contact_at("127.0.0.1:4250").address == "127.0.0.1:4250"


@pytest.mark.parametrize("question", [Stop(APP), Locate(APP), Locate(APP, Describe(APP))], ids=["stop", "self", "deep"])
def test_nothing_that_changes_a_job_and_no_further_search_rides_in_a_search(question: Stop | Locate) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_request(encode(Locate(APP, question)))  # type: ignore[arg-type]


def test_a_record_from_before_there_were_two_candidates_is_of_the_first() -> None:
    fields = msgspec.to_builtins(JOB)
    assert fields.pop("salt") == 0
    old = JobRecord.decode(msgspec.msgpack.encode(fields))
    assert old == JOB
    assert old.tree == JOB.tree


@pytest.mark.parametrize("salt", [-1, 2, "0", None])
def test_a_record_of_a_third_candidate_is_refused(salt: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        JobRecord.decode(msgspec.msgpack.encode(msgspec.to_builtins(JOB) | {"salt": salt}))


@pytest.mark.parametrize("salt", [0, 1])
def test_the_tree_of_a_publication_lies_by_the_candidate_key_that_won(salt: int) -> None:
    job = msgspec.structs.replace(JOB, salt=salt)
    assert [prefix_bits(job.tree, candidate_key(APP, one)) >= 96 for one in (0, 1)] == [salt == 0, salt == 1]
    assert JobRecord.decode(job.encode()) == job


def _with(record: object, **fields: object) -> bytes:
    """Return what a peer might send in a record's place: anything in these fields."""
    body: dict[str, object] = msgspec.to_builtins(record)
    return msgspec.msgpack.encode(body | fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"master_host": ""},
        {"master_host": "h" * 300},
        {"master_port": -1},
        {"master_port": 1 << 16},
        {"stamp_ms": 1 << 62},
        {"stamp_ms": -1},
        {"published_ms": 1 << 62},
        {"instance": "i" * 1_000},
        {"definition": msgspec.to_builtins(JOB.definition) | {"options": {"interval_ms": 0}}},
        {"definition": msgspec.to_builtins(JOB.definition) | {"options": {"leap_after_ms": 1 << 62}}},
    ],
    ids=repr,
)
def test_a_job_that_would_harm_whoever_takes_it_up_is_refused(fields: dict[str, object]) -> None:
    assert JobRecord.decode(_with(JOB)) == JOB
    with pytest.raises(msgspec.DecodeError):
        JobRecord.decode(_with(JOB, **fields))


@pytest.mark.parametrize("fields", [{"address": "nowhere"}, {"address": "h" * 300 + ":1"}, {"agent_id": ""}], ids=repr)
def test_who_cannot_be_reached_or_named_is_no_member(fields: dict[str, object]) -> None:
    member = Member(agent_id="a", name="web", address="127.0.0.1:1", sources=())
    assert read_msgpack(_with(member), Member) == member
    with pytest.raises(msgspec.DecodeError):
        read_msgpack(_with(member, **fields), Member)


@pytest.mark.parametrize(
    "request_",
    [
        Install(JOB, {"": "127.0.0.1:1"}),
        Install(JOB, {"a" * 129: "127.0.0.1:1"}),
        Enlist(APP, "i", "", "127.0.0.1:1"),
        Enlist(APP, "i", "a" * 129, "127.0.0.1:1"),
    ],
    ids=repr,
)
def test_names_that_no_message_of_the_tree_may_hold_come_on_no_roster(request_: Install | Enlist) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_request(encode(request_))


@pytest.mark.parametrize(
    "request_",
    [
        Describe(b"a" * 19),
        Locate(b"a" * 20, Query(b"", "latest")),
        AskShare(APP, "latest", (0, 1 << 63)),
        AskShare(APP, "latest", limit=-1),
        Query(APP, "latest", limit=1 << 63),
        DescribeSource("clicks", (), b"a" * 21),
        Spread("", "job/x/y", 1, b""),
        Spread("a\0b", "job/x/y", 1, b""),
    ],
    ids=repr,
)
def test_questions_that_nobody_can_answer_are_no_requests(request_: AnyRequest) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_request(encode(request_))


@pytest.mark.parametrize(
    ("change", "sound"),
    [
        ({}, True),
        ({"states": 0}, True),
        ({"states": 1}, False),
        ({"states": 7}, False),
        ({"number": 1}, False),
        ({"since": 4}, False),
        ({"since": (1 << 62) + 1}, False),
        ({"begins": -(1 << 62) - 1}, False),
    ],
)
def test_versions_that_disagree_make_the_bytes_no_record(change: dict[str, int], sound: bool) -> None:
    newest = msgspec.structs.replace(JOB.definition, version=JOB.definition.version + 1)
    versions = (
        Version(number=JOB.definition.version, definition=JOB.definition),
        Version(number=newest.version, definition=newest, since=5, begins=5, pao_kind=newest.version),
    )
    job = msgspec.to_builtins(msgspec.structs.replace(JOB, definition=newest, versions=versions))
    job["versions"][1].update(change)
    body = msgspec.msgpack.encode(job)
    if sound:
        assert JobRecord.decode(body).versions[1].since == 5
    else:
        with pytest.raises(msgspec.DecodeError):
            JobRecord.decode(body)


def test_a_version_without_a_sound_definition_makes_the_bytes_no_record() -> None:
    version = Version(number=JOB.definition.version, definition=JOB.definition)
    sound = msgspec.to_builtins(msgspec.structs.replace(JOB, versions=(version,)))
    assert JobRecord.decode(msgspec.msgpack.encode(sound)).versions == (version,)
    sound["versions"][0]["definition"]["name"] = "No Name"
    with pytest.raises(msgspec.ValidationError, match="bad name"):
        JobRecord.decode(msgspec.msgpack.encode(sound))
