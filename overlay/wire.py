"""Frames on a link: version, serial number, checksum, compression and, with a cluster secret, a tag.

Owns how one message's bytes become one WebSocket message and back; pure. A frame that does not check out ends the
link, and what was lost is sent again by the machines above when the edge comes up anew: one repair path, not two.
Layout: msgpack array [version, flags, serial, crc32 of body, body], then the tag if there is a secret.
"""

from __future__ import annotations

import struct
import zlib
from typing import Annotated

import lz4.block
import msgspec

from overlay.dht.auth import TAG_BYTES, Secret
from overlay.errors import DecodeError, UnsupportedVersionError
from overlay.messages import MESSAGE_BYTES_MAX

VERSION = 1
#: Room for the frame around the largest message.
FRAME_BYTES_MAX = MESSAGE_BYTES_MAX + 1024
#: Below this, compression costs more than it saves.
COMPRESS_BYTES_MIN = 512
_COMPRESSED = 1
_SIZE = struct.Struct("<I")


class _Frame(msgspec.Struct, frozen=True, array_like=True):
    version: int
    flags: Annotated[int, msgspec.Meta(ge=0, le=255)]
    serial: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    crc: Annotated[int, msgspec.Meta(ge=0, le=0xFFFFFFFF)]
    body: bytes


_decoder = msgspec.msgpack.Decoder(_Frame)


class Framer:
    """Both directions of one link; serials make a dropped, repeated or reordered frame an error.

    Args:
        secret: the cluster secret, or None.
        outward: context of tags we make: names the link (both nonces) and the direction.
        inward: context of tags we accept.
    """

    def __init__(self, secret: Secret | None, outward: bytes = b"", inward: bytes = b"") -> None:
        self._secret, self._outward, self._inward = secret, outward, inward
        self._sent = 0
        self._received = 0

    def wrap(self, message: bytes) -> bytes:
        """Return the frame that carries a message; call in the order of sending."""
        body, flags = message, 0
        if len(message) >= COMPRESS_BYTES_MIN:
            packed: bytes = lz4.block.compress(message, store_size=True)
            if len(packed) < len(message):
                body, flags = packed, _COMPRESSED
        frame = msgspec.msgpack.encode(_Frame(VERSION, flags, self._sent, zlib.crc32(body), body))
        self._sent += 1
        return frame if self._secret is None else frame + self._secret.tag(frame, self._outward)

    def unwrap(self, data: bytes) -> bytes:
        """Return the message in the next frame.

        Raises:
            DecodeError: not a frame, damaged, out of order, or without a valid tag.
            UnsupportedVersionError: a frame of another version of this format.
        """
        if len(data) > FRAME_BYTES_MAX:
            raise DecodeError(f"a frame of {len(data)} bytes is over the limit of {FRAME_BYTES_MAX}")
        if self._secret is not None:
            data, tag = data[:-TAG_BYTES], data[-TAG_BYTES:]
            if not self._secret.verify(data, self._inward, tag):
                raise DecodeError("a frame without a valid tag")
        try:
            frame = _decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise DecodeError(f"not a frame: {error}") from error
        if frame.version != VERSION:
            raise UnsupportedVersionError(f"a frame of version {frame.version}; this agent speaks {VERSION}")
        if frame.serial != self._received:
            raise DecodeError(f"frame {frame.serial} where {self._received} was due")
        if zlib.crc32(frame.body) != frame.crc:
            raise DecodeError(f"frame {frame.serial} is damaged: its checksum does not match")
        self._received += 1
        return _decompress(frame.body) if frame.flags & _COMPRESSED else frame.body


def _decompress(body: bytes) -> bytes:
    """Return the original of a compressed body, whose claimed size is checked before memory is taken for it."""
    if len(body) < _SIZE.size or _SIZE.unpack_from(body)[0] > MESSAGE_BYTES_MAX:
        raise DecodeError(f"a compressed message that claims to be over {MESSAGE_BYTES_MAX} bytes")
    try:
        message: bytes = lz4.block.decompress(body)
    except (lz4.block.LZ4BlockError, ValueError, MemoryError) as error:
        raise DecodeError(f"a damaged compressed message: {error}") from error
    return message
