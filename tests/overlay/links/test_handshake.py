from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.dht.auth import Secret
from elf.overlay.errors import DecodeError, RemoteProtocolError, UnsupportedVersionError
from elf.overlay.links import handshake
from elf.overlay.links.handshake import GREETING_BYTES_MAX, Hello
from elf.overlay.links.wire import VERSION, Frame

KEY, OTHER_KEY = Secret([b"1" * 32]), Secret([b"2" * 32])
#: The new key appended, and put first.
APPENDED, FIRST = Secret([b"1" * 32, b"2" * 32]), Secret([b"2" * 32, b"1" * 32])
CALLER = Hello(VERSION, "10.0.0.1:4250", "caller-agent", 77, 1, b"c" * 16, 3_000)
ANSWERER = Hello(VERSION, "10.0.0.2:4250", "answering-agent", 88, 2, b"a" * 16, 3_000)


@pytest.mark.parametrize(("ours", "theirs"), [(None, None), (KEY, KEY), (KEY, APPENDED), (APPENDED, FIRST)])
def test_two_members_learn_who_the_other_is(ours: Secret | None, theirs: Secret | None) -> None:
    caller = handshake.read_hello(theirs, handshake.greet(ours, CALLER))
    assert caller == CALLER
    welcome = handshake.answer(theirs, caller, ANSWERER)
    answerer, proof = handshake.read_answer(ours, CALLER, welcome)
    assert answerer == ANSWERER
    handshake.check_proof(theirs, caller, ANSWERER, proof)
    up = handshake.framer(ours, CALLER, answerer, calling=True)
    down = handshake.framer(theirs, caller, ANSWERER, calling=False)
    frame = Frame(0, 1, 2, 3, 4, b"body")
    assert down.unwrap(up.wrap(frame)) == frame
    if ours is not None:
        with pytest.raises(DecodeError):
            up.unwrap(up.wrap(frame))


@pytest.mark.parametrize(("ours", "theirs"), [(KEY, OTHER_KEY), (KEY, None), (None, KEY)])
def test_strangers_are_told_apart_at_the_first_message(ours: Secret | None, theirs: Secret | None) -> None:
    with pytest.raises(DecodeError, match="cluster secret"):
        handshake.read_hello(theirs, handshake.greet(ours, CALLER))
    with pytest.raises(DecodeError, match="cluster secret"):
        handshake.read_answer(ours, CALLER, handshake.answer(theirs, CALLER, ANSWERER))


def test_with_a_secret_nothing_can_be_read_by_who_lacks_it() -> None:
    heard = [
        handshake.greet(KEY, CALLER),
        handshake.answer(KEY, CALLER, ANSWERER),
        handshake.read_answer(KEY, CALLER, handshake.answer(KEY, CALLER, ANSWERER))[1],
    ]
    for message in heard:
        for hello in (CALLER, ANSWERER):
            for word in (hello.address, hello.agent, "10.0.0.", "agent", "4250"):
                assert word.encode() not in message


def test_proofs_are_for_one_greeting_and_one_role() -> None:
    welcome = handshake.answer(KEY, CALLER, ANSWERER)
    again = Hello(VERSION, CALLER.address, CALLER.agent, 77, 1, b"d" * 16, 3_000)
    with pytest.raises(DecodeError):
        handshake.read_answer(KEY, again, welcome)
    _, proof = handshake.read_answer(KEY, CALLER, welcome)
    with pytest.raises(DecodeError, match="does not prove"):
        handshake.check_proof(KEY, again, ANSWERER, proof)
    with pytest.raises(DecodeError):
        handshake.read_hello(KEY, welcome)


def test_other_versions_are_named() -> None:
    older = Hello(1, "10.0.0.1:1", "a", 1, 0, b"n" * 16, 3_000)
    with pytest.raises(UnsupportedVersionError, match="version 1"):
        handshake.read_hello(None, handshake.greet(None, older))


@given(st.binary(max_size=300), st.sampled_from([None, KEY]))
def test_any_bytes_are_refused(data: bytes, secret: Secret | None) -> None:
    with pytest.raises(RemoteProtocolError):
        handshake.read_hello(secret, data)
    with pytest.raises(RemoteProtocolError):
        handshake.read_answer(secret, CALLER, data)
    with pytest.raises(RemoteProtocolError):
        handshake.check_proof(KEY, CALLER, ANSWERER, data)


@given(st.data())
def test_a_changed_byte_is_noticed_with_a_secret(data: st.DataObject) -> None:
    greeting = bytearray(handshake.greet(KEY, CALLER))
    greeting[data.draw(st.integers(0, len(greeting) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(RemoteProtocolError):
        # A byte may say nothing: the length of the proof that a caller does not send.
        assert handshake.read_hello(KEY, bytes(greeting)) == CALLER


def test_a_greeting_that_is_too_long_is_refused() -> None:
    with pytest.raises(DecodeError, match="over the limit"):
        handshake.read_hello(None, bytes(GREETING_BYTES_MAX + 1))
