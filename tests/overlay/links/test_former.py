from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.dht.auth import Secret
from elf.overlay.errors import DecodeError, RemoteProtocolError, UnsupportedVersionError
from elf.overlay.links.former import OFFER, Answerer, Caller
from elf.overlay.links.handshake import Hello
from elf.overlay.links.offer import Offer

KEY = Secret([b"1" * 32])
CALLER = Hello("10.0.0.1:4250", "caller-agent", 77, 1, b"c" * 16, 3_000, OFFER)
ANSWERER = Hello("10.0.0.2:4250", "answering-agent", 88, 2, b"a" * 16, 3_000, OFFER)
#: What release 0.1 said: the caller's greeting, the answer, the caller's proof.
RECORDED = {
    None: (
        "96a3656c6603c41063636363636363636363636363636363c2c4349703ad31302e302e302e313a34323530ac63616c6c65722d6167656e74"
        "4d01c41063636363636363636363636363636363cd0bb8c400",
        "96a3656c6603c41061616161616161616161616161616161c2c4379703ad31302e302e302e323a34323530af616e73776572696e672d6167"
        "656e745802c41061616161616161616161616161616161cd0bb8c400",
        "91c400",
    ),
    KEY: (
        "96a3656c6603c41063636363636363636363636363636363c3c44806bf9deb58d34ae1f539414cf356f04502030e5d409db2358ac83723f7"
        "902fa5d05bf0f5646193328e3d313cfc4288b6b7dd8b4caa8dbb2aa1436f0178fe1c6a800d126c0fcab82fc400",
        "96a3656c6603c41061616161616161616161616161616161c3c44b3d0e115c24e46dcb266ac95d87940497d395c62664515190e3b070066e"
        "a5857be0e23006117e1d5df8bd54c1837e01491baa49d989bae0aa8dbb2a4efa05be0d03878a29ab73baf33f2ed9c414aa8dbb2a97b0cdd9"
        "edc742797efcab7fff3f80cb",
        "91c414aa8dbb2ade0891449339e563d242cf370e86a993",
    ),
}


@pytest.mark.parametrize("secret", RECORDED)
def test_it_is_what_the_release_before_says(secret: Secret | None) -> None:
    greeting, welcome, proof = map(bytes.fromhex, RECORDED[secret])
    caller, answerer = Caller(secret, CALLER), Answerer(secret)
    assert caller.greeting == greeting
    assert answerer.called(greeting) == CALLER
    assert answerer.welcome(CALLER, ANSWERER) == welcome
    assert caller.welcomed(welcome) == (ANSWERER, proof)
    answerer.proven(proof)


def test_a_release_that_does_not_speak_the_former_version_refuses_it() -> None:
    later = Hello("10.0.0.1:1", "a", 1, 0, b"n" * 16, 3_000, Offer(OFFER.newest + 1, OFFER.newest + 2))
    with pytest.raises(UnsupportedVersionError, match=r"release 0\.1"):
        Caller(None, later)
    with pytest.raises(UnsupportedVersionError):
        Answerer(None).welcome(CALLER, later)


def test_a_proof_before_a_greeting_is_none() -> None:
    with pytest.raises(DecodeError, match="before a greeting"):
        Answerer(None).proven(bytes.fromhex(RECORDED[None][2]))


@given(st.binary(max_size=300), st.sampled_from([None, KEY]))
def test_any_bytes_are_refused(data: bytes, secret: Secret | None) -> None:
    answerer = Answerer(KEY)
    answerer.called(Caller(KEY, CALLER).greeting)
    answerer.welcome(CALLER, ANSWERER)
    for read in (Answerer(secret).called, Caller(secret, CALLER).welcomed, answerer.proven):
        with pytest.raises(RemoteProtocolError):
            read(data)
