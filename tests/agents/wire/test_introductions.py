"""Introductions: an agent's own word is believed, nobody else's in its name, but that it is gone for good."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.wire.credentials import Credentials, Endorsement
from elf.agents.wire.introductions import AHEAD_MS, fault, gone, introduced
from elf.agents.wire.records import Member
from elf.overlay.fields import SERIAL_MAX
from elf.overlay.keys import SecretKey, new_identity

NOW_MS = 1_700_000_000_000
AGENT, SECRET = new_identity(random.Random(1))
KEY, ROGUE = SecretKey(SECRET), SecretKey(new_identity(random.Random(2))[1])
MEMBER = Member(agent_id=AGENT, name="web1", address="10.0.0.1:4250", sources=("clicks",), since_ms=5, release="1")
#: An agent of a data folder that a release without keys has made.
OLD = replace(MEMBER, agent_id="0123456789abcdef")
VERSIONS = st.integers(0, SERIAL_MAX)
TEXTS = st.text("ab", min_size=1, max_size=3)
MEMBERS = st.builds(
    Member,
    agent_id=st.sampled_from([AGENT, OLD.agent_id]),
    name=TEXTS,
    address=st.sampled_from(["10.0.0.1:4250", "10.0.0.1:4251", "10.0.0.2:4250"]),
    sources=st.lists(TEXTS, max_size=2).map(tuple),
    since_ms=st.integers(0, 2),
    release=TEXTS,
    unread=st.sampled_from([(), ("a",), ("a", "b")]),
)


def believed(member: Member, version: int, known: Member | None) -> bool:
    return fault(member, version, known, NOW_MS) is None


@given(MEMBERS, VERSIONS, MEMBERS, VERSIONS)
def test_a_signature_holds_for_what_was_signed_and_nothing_else(
    member: Member, version: int, other: Member, later: int
) -> None:
    signed = introduced(member, version, KEY)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(signed), type=Member)
    assert believed(again, version, None)
    assert believed(again, version, again)
    moved = replace(other, signed=signed.signed)
    assert believed(moved, later, signed) == ((other, later) == (member, version))


@given(MEMBERS, VERSIONS, VERSIONS)
def test_nobody_else_introduces_an_agent_whose_key_is_known(member: Member, version: int, later: int) -> None:
    known = introduced(member, version, KEY)
    assert not believed(replace(known, signed=None), later, known)
    assert not believed(introduced(member, later, ROGUE), later, known)
    stolen = introduced(member, later, ROGUE).signed
    assert stolen is not None
    assert not believed(replace(member, signed=Credentials(KEY.public, later, stolen.signature)), later, known)


def test_whose_id_follows_from_its_key_wins_over_whoever_was_there_first() -> None:
    squatter = introduced(MEMBER, 1, ROGUE)
    assert believed(squatter, 1, None), "nobody has heard of the agent yet"
    assert believed(introduced(MEMBER, 2, KEY), 2, squatter)
    assert not believed(introduced(MEMBER, 3, ROGUE), 3, introduced(MEMBER, 2, KEY))


def test_an_id_of_before_is_bound_to_the_first_key_heard_with_it() -> None:
    assert believed(OLD, 7, None)
    assert believed(replace(OLD, name="web7"), 8, OLD), "as long as its release signs nothing"
    first = introduced(OLD, 9, KEY)
    assert believed(first, 9, OLD)
    assert not believed(introduced(OLD, 10, ROGUE), 10, first)


@given(VERSIONS, VERSIONS)
def test_that_an_agent_is_gone_may_be_said_by_others_but_nothing_with_it(version: int, later: int) -> None:
    known = introduced(MEMBER, version, KEY)
    is_timely = version < later <= max(NOW_MS + AHEAD_MS, version + 1)
    assert believed(gone(known), later, known) == is_timely
    assert not believed(replace(gone(known), address="10.0.0.9:4250"), later, known)
    assert not believed(replace(gone(known), sources=()), later, known)
    assert not believed(replace(gone(known), signed=None), later, known)


@pytest.mark.parametrize("known", [None, OLD])
def test_without_a_key_it_may_be_said_but_not_for_ever(known: Member | None) -> None:
    assert believed(gone(OLD), NOW_MS + AHEAD_MS, known)
    assert not believed(gone(OLD), NOW_MS + AHEAD_MS + 1, known)


def test_the_authority_is_asked_about_key_and_address_as_of_when_it_was_signed() -> None:
    asked: list[tuple[Endorsement, str, int]] = []
    messages: list[bytes] = []

    def endorse(message: bytes) -> Endorsement:
        messages.append(message)
        return Endorsement(b"certificate", b"signature")

    def doubt(endorsement: Endorsement, message: bytes, address: str, at_ms: int) -> str | None:
        asked.append((endorsement, address, at_ms))
        return None if message == messages[-1] else "another message"

    signed = introduced(MEMBER, NOW_MS - 9, KEY, endorse)
    assert fault(signed, NOW_MS - 9, None, NOW_MS, doubt) is None
    assert asked == [(Endorsement(b"certificate", b"signature"), MEMBER.address, NOW_MS - 9)]
    ahead = introduced(MEMBER, NOW_MS + 9, KEY, endorse)
    assert fault(ahead, NOW_MS + 9, None, NOW_MS, doubt) is None
    assert asked[-1][2] == NOW_MS
    why = fault(introduced(MEMBER, NOW_MS, KEY), NOW_MS, None, NOW_MS, doubt)
    assert why == "it comes without a certificate of this cluster's authority"
    assert fault(MEMBER, NOW_MS, None, NOW_MS, doubt) is None, "an agent of a release that signs nothing"
    assert fault(introduced(MEMBER, NOW_MS, ROGUE, endorse), NOW_MS, None, NOW_MS, lambda *each: "no") == "no"
