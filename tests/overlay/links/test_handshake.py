from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.dht.auth import Secret
from elf.overlay.errors import DecodeError, RemoteProtocolError, UnsupportedVersionError
from elf.overlay.links import handshake
from elf.overlay.links.handshake import Answerer, Caller
from elf.overlay.links.offer import Offer
from elf.overlay.links.proofs import GREETING_BYTES_MAX
from elf.overlay.links.wire import VERSION, Frame
from tests.overlay.links.greetings import greeting, hello, welcome

KEY, OTHER_KEY = Secret([b"1" * 32]), Secret([b"2" * 32])
#: The new key appended, and put first.
APPENDED, FIRST = Secret([b"1" * 32, b"2" * 32]), Secret([b"2" * 32, b"1" * 32])
CALLER = hello("10.0.0.1:4250", "caller-agent", b"c" * 16)
ANSWERER = hello("10.0.0.2:4250", "answering-agent", b"a" * 16)
NEXT = Offer(VERSION, VERSION + 1, ("audits",), "9.9")


@pytest.mark.parametrize(("ours", "theirs"), [(None, None), (KEY, KEY), (KEY, APPENDED), (APPENDED, FIRST)])
def test_two_members_learn_who_the_other_is(ours: Secret | None, theirs: Secret | None) -> None:
    caller, answerer = Caller(ours, CALLER), Answerer(theirs)
    assert answerer.called(caller.greeting) == CALLER
    heard, proof = caller.welcomed(answerer.welcome(CALLER, ANSWERER))
    assert heard == ANSWERER
    answerer.proven(proof)
    up = handshake.framer(ours, CALLER, heard, calling=True)
    down = handshake.framer(theirs, CALLER, ANSWERER, calling=False)
    frame = Frame(0, 1, 2, 3, 4, b"body")
    assert down.unwrap(up.wrap(frame)) == frame
    if ours is not None:
        with pytest.raises(DecodeError):
            up.unwrap(up.wrap(frame))


@pytest.mark.parametrize(("ours", "theirs"), [(KEY, OTHER_KEY), (KEY, None), (None, KEY)])
def test_strangers_are_told_apart_at_the_first_message(ours: Secret | None, theirs: Secret | None) -> None:
    with pytest.raises(DecodeError, match="cluster secret"):
        Answerer(theirs).called(greeting(ours, CALLER))
    with pytest.raises(DecodeError, match="cluster secret"):
        Caller(ours, CALLER).welcomed(Answerer(theirs).welcome(CALLER, ANSWERER))


def test_with_a_secret_nothing_can_be_read_by_who_lacks_it() -> None:
    caller = Caller(KEY, CALLER)
    answer = welcome(KEY, caller.greeting, ANSWERER)
    for message in (caller.greeting, answer, caller.welcomed(answer)[1]):
        for one in (CALLER, ANSWERER):
            for word in (one.address, one.agent, "10.0.0.", "agent", "4250"):
                assert word.encode() not in message


def test_proofs_are_for_one_greeting_and_one_role() -> None:
    caller, answerer = Caller(KEY, CALLER), Answerer(KEY)
    answerer.called(caller.greeting)
    answer = answerer.welcome(CALLER, ANSWERER)
    again = hello(CALLER.address, CALLER.agent, b"d" * 16)
    with pytest.raises(DecodeError):
        Caller(KEY, again).welcomed(answer)
    other = Answerer(KEY)
    other.called(greeting(KEY, again))
    other.welcome(again, ANSWERER)
    with pytest.raises(DecodeError, match="does not prove"):
        other.proven(caller.welcomed(answer)[1])
    with pytest.raises(DecodeError):
        answerer.called(answer)


@pytest.mark.parametrize("secret", [None, KEY])
@pytest.mark.parametrize(("one", "other"), [(CALLER.offer, NEXT), (NEXT, CALLER.offer), (NEXT, NEXT)])
def test_both_ends_take_the_newest_version_that_both_know(secret: Secret | None, one: Offer, other: Offer) -> None:
    mine, theirs = hello("10.0.0.1:1", offer=one), hello("10.0.0.2:1", nonce=b"t" * 16, offer=other)
    caller = Caller(secret, mine)
    heard, _ = caller.welcomed(welcome(secret, caller.greeting, theirs))
    assert heard.offer == other
    frame = handshake.framer(secret, mine, heard, calling=True).wrap(Frame(0, 1, 2, 3, 4, b""))
    assert frame[0] == (VERSION + 1 if one is other is NEXT else VERSION)


@pytest.mark.parametrize(
    ("mine", "theirs", "who"), [(Offer(3, 4), Offer(5, 6), "this agent"), (Offer(5, 6), Offer(3, 4), "the other agent")]
)
def test_who_is_to_be_upgraded_is_named_on_either_side(mine: Offer, theirs: Offer, who: str) -> None:
    caller = Caller(KEY, hello("10.0.0.1:1", offer=mine))
    answer = welcome(KEY, caller.greeting, hello("10.0.0.2:1", offer=theirs))
    with pytest.raises(UnsupportedVersionError, match=f"upgrade {who}"):
        caller.welcomed(answer)


def test_nobody_in_between_lowers_what_is_offered() -> None:
    """Each field of a greeting that can be read is under the seal, too."""
    said = msgspec.msgpack.decode(greeting(KEY, hello("10.0.0.1:1", offer=Offer(3, 9, ("audits",), "1.0"))))
    for place, other in ((2, 2), (3, 3), (4, []), (5, "0.1")):
        with pytest.raises(DecodeError, match="contradicts itself"):
            Answerer(KEY).called(msgspec.msgpack.encode([*said[:place], other, *said[place + 1 :]]))


@pytest.mark.parametrize("secret", [None, KEY])
def test_what_a_later_release_adds_is_passed_over_and_proven(secret: Secret | None) -> None:
    """Proofs cover what was sent: an end that does not know a field agrees with one that does."""

    def later(data: bytes) -> bytes:
        return msgspec.msgpack.encode([*msgspec.msgpack.decode(data), "more", {"and": "more"}])

    caller, answerer = Caller(secret, CALLER), Answerer(secret)
    caller.greeting = later(caller.greeting)
    assert answerer.called(caller.greeting) == CALLER
    heard, proof = caller.welcomed(later(answerer.welcome(CALLER, ANSWERER)))
    assert heard == ANSWERER
    answerer.proven(later(proof))


@given(st.binary(max_size=300), st.sampled_from([None, KEY]))
def test_any_bytes_are_refused(data: bytes, secret: Secret | None) -> None:
    caller, answerer = Caller(secret, CALLER), Answerer(KEY)
    answerer.called(greeting(KEY, CALLER))
    answerer.welcome(CALLER, ANSWERER)
    with pytest.raises(RemoteProtocolError):
        Answerer(secret).called(data)
    with pytest.raises(RemoteProtocolError):
        caller.welcomed(data)
    with pytest.raises(RemoteProtocolError):
        answerer.proven(data)


@given(st.data())
def test_a_changed_byte_is_noticed_with_a_secret(data: st.DataObject) -> None:
    changed = bytearray(greeting(KEY, CALLER))
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(RemoteProtocolError):
        # A byte may say nothing: how a number is written.
        assert Answerer(KEY).called(bytes(changed)) == CALLER


def test_a_greeting_that_is_too_long_is_refused() -> None:
    with pytest.raises(DecodeError, match="over the limit"):
        Answerer(None).called(bytes(GREETING_BYTES_MAX + 1))


def test_the_form_of_the_greeting_never_changes() -> None:
    """Recorded with the release that began with it: every later one reads these bytes."""
    recorded = bytes.fromhex(RECORDED)
    assert Answerer(None).called(recorded) == hello("10.0.0.1:4250", "caller-agent", b"c" * 16, offer=Offer(3, 3))
    assert greeting(None, hello("10.0.0.1:4250", "caller-agent", b"c" * 16, offer=Offer(3, 3))) == recorded


RECORDED = (
    "99a3656c6601030390a0c41063636363636363636363636363636363c2c43897ad31302e302e302e313a34323530ac63616c6c65722d6167656e"
    "740100c41063636363636363636363636363636363cd0bb894030390a0"
)
