"""Keys of agents: what is signed is believed as it was signed, by nobody else, and ids follow from keys."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.keys import KEY_BYTES, SecretKey, is_signed, message_of, name_of, new_identity

SECRETS = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)


@given(SECRETS, SECRETS, st.binary(max_size=100), st.binary(max_size=100))
def test_a_signature_is_of_one_key_and_one_message(mine: bytes, others: bytes, message: bytes, other: bytes) -> None:
    key = SecretKey(mine)
    signature = key.sign(message)
    assert is_signed(key.public, message, signature)
    assert is_signed(SecretKey(others).public, message, signature) == (mine == others)
    assert is_signed(key.public, other, signature) == (message == other)
    assert not is_signed(key.public, message, bytes(64))


@given(st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES), st.binary(max_size=80))
def test_no_bytes_pass_for_a_key_or_a_signature_by_chance(public: bytes, signature: bytes) -> None:
    assert not is_signed(public, b"message", signature)


@given(st.lists(st.binary(max_size=20)), st.lists(st.binary(max_size=20)))
def test_fields_cannot_be_moved_into_each_other(some: list[bytes], others: list[bytes]) -> None:
    assert (message_of(b"purpose", *some) == message_of(b"purpose", *others)) == (some == others)
    assert message_of(b"purpose", *some) != message_of(b"another", *some)


def test_an_identity_is_a_key_and_its_name() -> None:
    agent, secret = new_identity(random.Random(1))
    assert agent == name_of(SecretKey(secret).public)
    assert len(agent) == 16
    assert (agent, secret) == new_identity(random.Random(1)) != new_identity(random.Random(2))
