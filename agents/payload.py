"""What one snapshot says besides its PAOs, and the bytes of both: the payload that rolls up a job's tree.

The overlay carries payloads and merges them through `merge`, without knowing what is inside (DESIGN section 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias

import msgspec
import polars as pl

from cbt import PaoDecodeError, PaoSchema, decode, encode
from overlay.decoding import read_msgpack
from overlay.messages import Interval

#: Most events that one payload counts as late or shed; more is not to be told from this, whatever others say.
COUNT_MAX = 1 << 40
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
Runs: TypeAlias = tuple[tuple[Interval, Interval], ...]


class Notes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about a snapshot that end up in the completeness label; they merge like PAOs."""

    #: Events that came after their interval was sealed; they ride in this snapshot.
    late: Count = 0
    #: Events dropped on purpose because an intake was full.
    shed: Count = 0
    #: Runs of intervals, both ends included, in which lines may have vanished unread (copytruncate).
    gaps: Runs = ()
    #: agent id -> first interval the agent has all events of; agents that read from the beginning are not listed.
    partial_before: Mapping[str, Interval] = {}
    #: agent id -> runs of commits, (after, through], that went without the agent and whose data this payload brings.
    settles: Mapping[str, Runs] = {}
    #: agent id -> runs of intervals, (after, through], whose data a crash may have lost.
    lost: Mapping[str, Runs] = {}

    def __bool__(self) -> bool:
        return bool(self.late or self.shed or self.gaps or self.partial_before or self.settles or self.lost)

    def __add__(self, other: Notes) -> Notes:
        settles = dict(self.settles)
        for agent, runs in other.settles.items():
            settles[agent] = (*settles.get(agent, ()), *runs)
        return Notes(
            late=min(self.late + other.late, COUNT_MAX),
            shed=min(self.shed + other.shed, COUNT_MAX),
            gaps=(*self.gaps, *other.gaps),
            partial_before={**self.partial_before, **other.partial_before},
            settles=settles,
            lost={**self.lost, **other.lost},
        )


class _Wire(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    notes: Notes
    block: bytes


def pack(notes: Notes, frame: pl.DataFrame) -> bytes | None:
    """Encode a snapshot's payload; None when there is nothing to say."""
    if not notes and frame.height == 0:
        return None
    return msgspec.msgpack.encode(_Wire(notes, encode(frame)))


def unpack(payload: bytes, schema: PaoSchema) -> tuple[Notes, pl.DataFrame]:
    """Decode a payload of a job with this schema.

    Raises:
        PaoDecodeError: the bytes are not such a payload.
    """
    try:
        wire = read_msgpack(payload, _Wire)
    except msgspec.DecodeError as error:
        raise PaoDecodeError(f"not a payload: {error}") from None
    return wire.notes, decode(wire.block, schema)


def merge(payloads: Sequence[bytes], schema: PaoSchema) -> bytes:
    """Merge payloads of one job into one; O(rows). Bytes that are no payload of this job raise `PaoDecodeError`."""
    notes = Notes()
    frames: list[pl.DataFrame] = []
    for payload in payloads:
        more, frame = unpack(payload, schema)
        notes += more
        frames.append(frame)
    try:
        merged = schema.merge(frames)
    except (ArithmeticError, ValueError) as error:
        # States of our own making always merge.
        raise PaoDecodeError(f"the PAOs do not merge: {error}") from None
    return msgspec.msgpack.encode(_Wire(notes, encode(merged)))
