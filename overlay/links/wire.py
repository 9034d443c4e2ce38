"""Frames on a link: a header with numbers, a batch of messages, and what proves both undamaged.

Owns how one frame becomes one WebSocket message and back, and how messages are packed and compressed; pure. What the
numbers mean is `elf.overlay.links.channel`'s. Layout: version, flags, number, serial, ack, grant (little endian), body,
then the secret's tag or, without a secret, a CRC-32; either covers everything before it. Body: one message or part of
one, or a msgpack array of several. OVERLAY 6.1, DESIGN section 6.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import TypeAlias

import lz4.block
import msgspec

from elf.overlay.dht.auth import TAG_BYTES, Secret
from elf.overlay.errors import DamagedError, DecodeError, UnsupportedVersionError

#: Versions of frames and messages that are spoken here; 1 had one message a frame and no acknowledgements, 2 no leases.
OLDEST_VERSION, VERSION = 3, 3
#: Most a body may hold before compression, and grow to after it; large messages go in several frames. Small enough
#: that a frame passes a slow line well within the lease, large enough that a frame's own cost does not count.
BODY_BYTES_MAX = 128 << 10
#: Below this, compression costs more than it saves.
COMPRESS_BYTES_MIN = 512

#: The frame has a body, whose serial it bears; without, the serial is that of the next one.
DATA = 1
COMPRESSED = 2
#: The body belongs to the lane that needs credit.
BULK = 4
#: The last message of the body goes on in the next frame of its lane.
PARTIAL = 8
#: The sender lacks the frame with serial `ack` and wants it, and all after it, again.
RESEND = 16
#: The body is an array of messages.
BATCH = 32
_FLAGS = DATA | COMPRESSED | BULK | PARTIAL | RESEND | BATCH

_HEAD = struct.Struct("<BBQQQQ")
_SUM = struct.Struct("<I")
_SIZE = struct.Struct("<I")
_NUMBER_BITS = 62
_VIEW_BYTES_MIN = 4_096
#: What a frame adds to its body at most; lz4 data that did not shrink is not sent.
FRAME_BYTES_MAX = BODY_BYTES_MAX + _HEAD.size + TAG_BYTES

#: Messages as they arrive: a view of the frame where nothing had to be copied.
Buffer: TypeAlias = bytes | memoryview

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[bytes])


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One transmission."""

    flags: int
    #: Counts transmissions of this direction, from 1: what comes twice or late is known by it.
    number: int
    serial: int
    #: The next serial the sender wants; it has all before.
    ack: int
    #: How many bytes of bulk bodies the receiver of this frame may have sent over the life of the link.
    grant: int
    body: Buffer = b""


class Framer:
    """Both directions of one link.

    Args:
        secret: the cluster secret, or None.
        outward: context of tags we make: names the link (both nonces) and the direction.
        inward: context of tags we accept.
        version: what both ends agreed on.
    """

    def __init__(
        self, secret: Secret | None, outward: bytes = b"", inward: bytes = b"", version: int = VERSION
    ) -> None:
        self._secret = secret
        self._outward = outward
        self._inward = inward
        self._version = version

    def wrap(self, frame: Frame) -> bytes:
        """Return the bytes of a frame."""
        head = _HEAD.pack(self._version, frame.flags, frame.number, frame.serial, frame.ack, frame.grant)
        if self._secret is not None:
            data = head + frame.body
            return data + self._secret.tag(data, self._outward)
        return b"".join((head, frame.body, _SUM.pack(zlib.crc32(frame.body, zlib.crc32(head)))))

    def unwrap(self, data: bytes) -> Frame:
        """Return the frame in some bytes; its body is not looked into.

        Raises:
            DamagedError: the checksum does not match; may be sent again. With a secret there is no such thing: what
                bears no valid tag was not sent by our peer.
            DecodeError: not a frame, too large, or without a valid tag.
            UnsupportedVersionError: a frame of another version of this format.
        """
        if len(data) > FRAME_BYTES_MAX:
            raise DecodeError(f"a frame of {len(data)} bytes is over the limit of {FRAME_BYTES_MAX}")
        # Views spare copies of large frames and cost more than copies of small ones.
        view: Buffer = data if len(data) < _VIEW_BYTES_MIN else memoryview(data)
        if self._secret is None:
            end = len(data) - _SUM.size
            if end < _HEAD.size or zlib.crc32(view[:end]) != _SUM.unpack_from(data, end)[0]:
                raise DamagedError("a damaged frame: its checksum does not match")
        else:
            end = len(data) - TAG_BYTES
            if end < _HEAD.size or not self._secret.verify(data[:end], self._inward, data[end:]):
                raise DecodeError("a frame without a valid tag")
        version, flags, number, serial, ack, grant = _HEAD.unpack_from(data)
        if version != self._version:
            raise UnsupportedVersionError(f"a frame of version {version}; {self._version} was agreed on")
        if flags & ~_FLAGS or (number | serial | ack | grant) >> _NUMBER_BITS:
            raise DecodeError(f"a frame with unknown flags {flags} or an illegal number")
        return Frame(flags, number, serial, ack, grant, view[_HEAD.size : end])


def pack(messages: Sequence[bytes]) -> tuple[bytes, int, int]:
    """Return the body that carries messages, its flags, and how many bytes it was before compression."""
    body, flags = (messages[0], 0) if len(messages) == 1 else (_encoder.encode(messages), BATCH)
    size = len(body)
    if size >= COMPRESS_BYTES_MIN:
        packed: bytes = lz4.block.compress(body, store_size=True)
        if len(packed) < size:
            return packed, flags | COMPRESSED, size
    return body, flags, size


def unpack(frame: Frame) -> tuple[list[Buffer], int]:
    """Return the messages in a frame's body and how many bytes it had before compression.

    Raises:
        DecodeError: the body is none.
    """
    body = _decompress(frame.body) if frame.flags & COMPRESSED else frame.body
    if not frame.flags & BATCH:
        return [body], len(body)
    try:
        messages: list[Buffer] = [*_decoder.decode(body)]
    except (msgspec.DecodeError, RecursionError) as error:
        raise DecodeError(f"not a batch of messages: {error}") from error
    if not messages:
        raise DecodeError("a batch without messages")
    return messages, len(body)


def _decompress(body: Buffer) -> bytes:
    """Return the original of a compressed body, whose claimed size is checked before memory is taken for it."""
    if len(body) < _SIZE.size or _SIZE.unpack_from(body)[0] > BODY_BYTES_MAX:
        raise DecodeError(f"a compressed body that claims to be over {BODY_BYTES_MAX} bytes")
    try:
        original: bytes = lz4.block.decompress(body)
    except (lz4.block.LZ4BlockError, ValueError, MemoryError) as error:
        raise DecodeError(f"a damaged compressed body: {error}") from error
    return original
