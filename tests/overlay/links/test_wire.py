from __future__ import annotations

import random

import lz4.block
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.dht.auth import Secret
from elf.overlay.errors import DamagedError, DecodeError, RemoteProtocolError, UnsupportedVersionError
from elf.overlay.links import wire
from elf.overlay.links.wire import BATCH, BODY_BYTES_MAX, COMPRESSED, DATA, Frame, Framer, pack, unpack

KEY, OTHER_KEY = Secret([b"1" * 32]), Secret([b"2" * 32])
numbers = st.integers(0, (1 << 62) - 1)


def frame(body: bytes = b"", flags: int = 0) -> Frame:
    return Frame(flags, 1, 2, 3, 4, body)


@given(st.integers(0, 63), numbers, numbers, numbers, numbers, st.binary(max_size=300), st.booleans())
def test_frames_come_back(flags: int, number: int, serial: int, ack: int, grant: int, body: bytes, keyed: bool) -> None:
    framer = Framer(KEY if keyed else None, b"x", b"x")
    made = Frame(flags, number, serial, ack, grant, body)
    assert framer.unwrap(framer.wrap(made)) == made


@given(st.lists(st.binary(max_size=400), min_size=1, max_size=50))
def test_batches_come_back(messages: list[bytes]) -> None:
    body, flags, size = pack(messages)
    assert unpack(frame(body, DATA | flags)) == (messages, size)
    assert len(body) <= size


@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_a_frame_or_the_one_remote_error(data: bytes, keyed: bool) -> None:
    framer = Framer(KEY if keyed else None, b"x", b"y")
    with pytest.raises(RemoteProtocolError):
        framer.unwrap(data)


@given(st.binary(max_size=400), st.sampled_from([0, BATCH, COMPRESSED, BATCH | COMPRESSED]))
def test_any_body_is_a_batch_or_the_one_remote_error(body: bytes, flags: int) -> None:
    try:
        messages, size = unpack(frame(body, flags))
    except DecodeError:
        return
    assert messages
    assert size <= BODY_BYTES_MAX


@given(st.binary(max_size=200), st.data())
def test_damage_is_told_from_attack(body: bytes, data: st.DataObject) -> None:
    for framer, error in ((Framer(None), DamagedError), (Framer(KEY, b"x", b"x"), DecodeError)):
        whole = bytearray(framer.wrap(frame(body)))
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
        with pytest.raises(error) as caught:
            framer.unwrap(bytes(whole))
        assert isinstance(caught.value, DamagedError) is (error is DamagedError)


def test_what_is_not_for_us_is_refused() -> None:
    with pytest.raises(DecodeError, match="valid tag"):
        Framer(KEY, b"x", b"x").unwrap(Framer(OTHER_KEY, b"x", b"x").wrap(frame()))
    with pytest.raises(DecodeError, match="valid tag"):
        Framer(KEY, b"x", b"y").unwrap(Framer(KEY, b"x", b"y").wrap(frame()))
    with pytest.raises(DecodeError, match="over the limit"):
        Framer(None).unwrap(bytes(wire.FRAME_BYTES_MAX + 1))
    with pytest.raises(DecodeError, match="unknown flags"):
        Framer(None).unwrap(Framer(None).wrap(frame(flags=128)))
    with pytest.raises(DecodeError, match="illegal number"):
        Framer(None).unwrap(Framer(None).wrap(Frame(0, 1 << 62, 0, 0, 0)))
    older = bytearray(Framer(None).wrap(frame())[:-4])
    older[0] = 1
    with pytest.raises(UnsupportedVersionError):
        Framer(None).unwrap(bytes(older) + wire.zlib.crc32(older).to_bytes(4, "little"))


def test_bombs_are_refused_before_they_take_memory() -> None:
    bomb = (BODY_BYTES_MAX + 1).to_bytes(4, "little") + b"\0" * 100
    with pytest.raises(DecodeError, match="claims to be over"):
        unpack(frame(bomb, COMPRESSED))
    liar = bytearray(lz4.block.compress(b"a" * 100_000, store_size=True))
    liar[:4] = (10).to_bytes(4, "little")
    with pytest.raises(DecodeError, match="damaged compressed body"):
        unpack(frame(bytes(liar), COMPRESSED))
    with pytest.raises(DecodeError, match="not a batch"):
        unpack(frame(b"\xdd\xff\xff\xff\xff" + b"\xc4\x00" * 10, BATCH))
    with pytest.raises(DecodeError, match="without messages"):
        unpack(frame(msgspec.msgpack.encode([]), BATCH))


def test_what_does_not_shrink_is_not_compressed_and_fits_a_frame() -> None:
    noise = random.Random(1).randbytes(BODY_BYTES_MAX - 10)
    body, flags, size = pack([noise])
    assert not flags
    assert len(body) == size <= BODY_BYTES_MAX
    assert len(Framer(KEY).wrap(frame(body))) <= wire.FRAME_BYTES_MAX
