"""Tags and sealed datagrams: strangers, replays, reflections and damaged bytes get nowhere; keys can be changed."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.dht.auth import KEY_BYTES, SKEW_MS, TAG_BYTES, Gate, Secret
from elf.overlay.errors import SecretError

OLD, NEW, OTHER = b"o" * KEY_BYTES, b"n" * KEY_BYTES, b"x" * KEY_BYTES
NOW = 1_700_000_000_000
HERE, THERE = "10.0.0.1:4250", "10.0.0.2:4250"


def test_a_tag_holds_for_its_data_and_context_only() -> None:
    secret = Secret([OLD])
    tag = secret.tag(b"data", b"hello")
    assert len(tag) == TAG_BYTES
    assert Secret([OLD]).verify(b"data", b"hello", tag)
    assert not secret.verify(b"datA", b"hello", tag)
    assert not secret.verify(b"data", b"reply", tag)
    assert not secret.verify(b"odata", b"hell", tag), "data and context do not run together"
    assert not Secret([OTHER]).verify(b"data", b"hello", tag)


@given(st.binary(max_size=40))
def test_no_other_bytes_are_a_tag(tag: bytes) -> None:
    assert not Secret([OLD]).verify(b"data", b"hello", tag)


@given(st.binary(max_size=300), st.binary(max_size=40))
def test_what_is_sealed_opens_in_its_context_for_members_only(data: bytes, context: bytes) -> None:
    ours, others = Secret([b"1" * 32]), Secret([b"2" * 32])
    sealed = ours.seal(data, context)
    assert len(sealed) == len(data) + TAG_BYTES
    assert Secret([b"3" * 32, b"1" * 32]).unseal(sealed, context) == data
    assert others.unseal(sealed, context) is None
    assert ours.unseal(sealed, context + b"x") is None
    assert ours.unseal(sealed[1:], context) is None
    if len(data) > 8:
        assert data not in sealed
        assert ours.seal(data, context + b"x")[: len(data)] != sealed[: len(data)]


def test_keys_are_changed_without_an_outage() -> None:
    stages = [Secret([OLD]), Secret([OLD, NEW]), Secret([NEW, OLD]), Secret([NEW])]
    for one, next_one in itertools.pairwise(stages):
        assert one.verify(b"d", b"c", next_one.tag(b"d", b"c"))
        assert next_one.verify(b"d", b"c", one.tag(b"d", b"c"))
    assert not stages[-1].verify(b"d", b"c", stages[0].tag(b"d", b"c"))


@pytest.mark.parametrize("keys", [[], [OLD, NEW, OTHER], [b"short"], [b""]])
def test_weak_or_too_many_keys_are_refused(keys: list[bytes]) -> None:
    with pytest.raises(SecretError):
        Secret(keys)


def test_secrets_survive_their_text_and_do_not_show_in_logs() -> None:
    secret = Secret([NEW, OLD])
    again = Secret.parse("# cluster\n\n" + secret.text())
    assert again.verify(b"d", b"c", secret.tag(b"d", b"c"))
    assert again.text() == secret.text()
    assert NEW.hex() not in repr(secret) and str(NEW) not in repr(secret)


@pytest.mark.parametrize("text", ["swordfish", "ab" * 31, OLD.hex() + "\nzz", "é" * 64])
def test_a_bad_line_is_named_and_not_repeated(text: str) -> None:
    with pytest.raises(SecretError, match=r"my\.secret:\d: a cluster key is 64 hexadecimal digits") as caught:
        Secret.parse(text, where="my.secret")
    assert text not in str(caught.value)


def test_the_file_must_be_private(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    with pytest.raises(SecretError, match="cannot read"):
        Secret.load(file)
    file.write_text(Secret([OLD]).text())
    file.chmod(0o644)
    with pytest.raises(SecretError, match="chmod 600"):
        Secret.load(file)
    file.chmod(0o600)
    assert Secret.load(str(file)).text() == Secret([OLD]).text()


def test_a_sealed_datagram_opens_once_there_and_nowhere_else() -> None:
    secret = Secret([OLD])
    here, there = Gate(secret, HERE), Gate(secret, THERE)
    datagram = here.seal(b"body", THERE, NOW)
    assert b"body" in datagram, "authentic, not secret"
    assert here.open(datagram, NOW) is None, "reflected"
    assert there.open(datagram, NOW) == b"body"
    assert there.open(datagram, NOW + 1) is None, "replayed"
    assert Gate(Secret([OTHER]), THERE).open(datagram, NOW) is None
    assert Gate(None, THERE).open(datagram, NOW) is None


@pytest.mark.parametrize(
    ("late_ms", "opens"), [(-SKEW_MS - 1, False), (-SKEW_MS, True), (SKEW_MS, True), (30_001, False)]
)
def test_the_date_must_be_near(late_ms: int, opens: bool) -> None:
    secret, there = Secret([OLD]), Gate(Secret([OLD]), THERE)
    assert (there.open(Gate(secret, HERE).seal(b"b", THERE, NOW), NOW + late_ms) is not None) == opens
    assert there.apart_ms == (None if opens else -late_ms), "how far apart clocks are is known of members only"
    there.open(Gate(Secret([OTHER]), HERE).seal(b"b", THERE, NOW), NOW + late_ms)
    assert there.apart_ms is None


@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=30), st.integers(0, SKEW_MS), st.integers(-SKEW_MS, 0))
def test_no_replay_succeeds_whenever_the_window_turns(steps: list[int], wait_ms: int, early_ms: int) -> None:
    secret = Secret([OLD])
    here, there, now = Gate(secret, HERE), Gate(secret, THERE), NOW
    for number, step in enumerate(steps):
        now += step
        there.open(here.seal(b"%d" % number, THERE, now), now)
    datagram = here.seal(b"the one", THERE, now - early_ms)
    assert there.open(datagram, now) == b"the one"
    assert there.open(datagram, now + wait_ms) is None
    for number, step in enumerate(steps):
        now += step
        there.open(here.seal(b"again %d" % number, THERE, now), now)
        assert there.open(datagram, now) is None


@given(st.binary(max_size=80), st.booleans())
def test_any_bytes_are_refused_in_silence(data: bytes, keyed: bool) -> None:
    gate = Gate(Secret([OLD]) if keyed else None, HERE)
    opened = gate.open(data, NOW)
    assert opened is None or (not keyed and data == b"\x01" + opened)


@given(st.data())
def test_one_changed_bit_is_enough(data: st.DataObject) -> None:
    secret = Secret([OLD])
    wire = bytearray(Gate(secret, HERE).seal(b"some body", THERE, NOW))
    wire[data.draw(st.integers(0, len(wire) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert Gate(secret, THERE).open(bytes(wire), NOW) is None
