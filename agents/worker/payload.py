"""What one snapshot says besides its PAOs, and the bytes of both: the payload that rolls up a job's tree.

The overlay carries payloads and merges them through `merge`, without knowing what is inside (DESIGN section 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import polars as pl

from elf.agents.completeness.lacks import NOTHING, Cause, Lacks, LacksRecord
from elf.agents.completeness.runs import RunsAfter
from elf.agents.completeness.tallies import COUNT_MAX, Count, Tally, added, bounded
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Versions
from elf.agents.worker.paos import Blocks, Paos, check_blocks, decoded
from elf.cbt import PaoDecodeError, PaoSchema, decode, encode
from elf.overlay.decoding import read_msgpack
from elf.overlay.fields import Interval


class Notes(LacksRecord, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Facts about a snapshot that end up in the completeness label; they merge like PAOs."""

    #: Events that came after their interval was sealed; they ride in this snapshot.
    late: Count = 0
    #: Lines that were no events.
    rejected: Count = 0
    #: agent id -> runs of commits, (after, through], that went without the agent and whose data this payload brings.
    settles: Mapping[str, RunsAfter] = {}
    #: agent id -> version of the job -> first interval of which the agent counts all its events by it; of the first
    #: version nobody tells.
    since: Mapping[str, Mapping[int, Interval]] = {}
    #: Lines that those agents read meanwhile which had rejected some, and whether these were more than a few of any's.
    lines: Count = 0
    misread: bool = False
    #: Values that do not fit their columns' types, of columns that the job reads.
    mistyped: Mapping[str, Tally] = {}

    def __bool__(self) -> bool:
        told = self.gaps or self.partial_before or self.settles or self.lost or self.since
        return bool(self.late or self.rejected or self.mistyped or told)

    @property
    def brings(self) -> Lacks:
        """What had been missed and comes."""
        return Lacks.told({Cause.MISSED: self.settles}) if self.settles else NOTHING

    def __add__(self, other: Notes) -> Notes:
        # An agent tells all that it has to tell each time: of two that are merged in either order the later has more.
        since = {
            agent: {**self.since.get(agent, {}), **other.since.get(agent, {})}
            for agent in {**self.since, **other.since}
        }
        return self.with_lacks(
            self.lacks | other.lacks,
            late=min(self.late + other.late, COUNT_MAX),
            rejected=min(self.rejected + other.rejected, COUNT_MAX),
            settles=(self.brings | other.brings).named.get(Cause.MISSED, {}),
            since=since,
            lines=min(self.lines + other.lines, COUNT_MAX),
            misread=self.misread or other.misread,
            mistyped=bounded(added(self.mistyped, other.mistyped)),
        )


class _Wire(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`others`: blocks of kinds of PAOs other than the first; `block` may be empty beside them."""

    notes: Notes
    block: bytes
    others: Blocks = ()

    def blocks(self) -> list[tuple[int, bytes]]:
        """Return all blocks, each with its kind."""
        return [*([(0, self.block)] if self.block else ()), *self.others]


def pack(notes: Notes, rows: pl.DataFrame | Paos) -> bytes | None:
    """Encode a snapshot's payload; None when there is nothing to say. A frame is of the first kind of PAOs."""
    paos = Paos([(0, rows)]) if isinstance(rows, pl.DataFrame) else rows
    if not notes and not paos.height:
        return None
    others = [(kind, block) for kind, block in paos.blocks.items() if kind]
    return _encode(notes, paos.blocks.get(0, b""), others)


def _encode(notes: Notes, block: bytes, others: Sequence[tuple[int, bytes]]) -> bytes:
    return msgspec.msgpack.encode((notes, block, others) if others else (notes, block))


def noting(payload: bytes | None, notes: Notes) -> bytes:
    """Return a payload that says something more; its PAOs are not looked at. Raises PaoDecodeError on other bytes."""
    wire = _Wire(Notes(), b"") if payload is None else _read(payload)
    return _encode(wire.notes + notes, wire.block, wire.others)


def _read(payload: bytes) -> _Wire:
    try:
        return read_msgpack(payload, _Wire)
    except msgspec.DecodeError as error:
        raise PaoDecodeError(f"not a payload: {error}") from None


def unpack(payload: bytes, job: Versions | Plan) -> tuple[Notes, Paos]:
    """Decode a payload of a job; PAOs of no version that is remembered are left out.

    Raises:
        PaoDecodeError: the bytes are not such a payload.
    """
    wire = _read(payload)
    return wire.notes, decoded(wire.blocks(), Versions.of(job))


def merge(payloads: Sequence[bytes], job: Versions | Plan) -> bytes:
    """Merge payloads of one job into one; O(rows). Bytes that are no payload of this job raise `PaoDecodeError`.

    PAOs of versions that are not known here go on as they are: whoever is nearer to the root may know them. Too many of
    these raise `PaoDecodeError`, too.
    """
    versions, notes = Versions.of(job), Notes()
    frames: dict[int, list[pl.DataFrame]] = {}
    unknown: list[tuple[int, bytes]] = []
    for payload in payloads:
        wire = _read(payload)
        notes += wire.notes
        blocks = wire.blocks()
        check_blocks(blocks)
        for kind, block in blocks:
            plan = versions.plan_of(kind)
            if plan is None:
                unknown.append((kind, block))
            else:
                frames.setdefault(kind, []).append(decode(block, plan.schema))
    try:
        merged = {kind: _schema(versions, kind).merge(parts) for kind, parts in frames.items()}
    except (ArithmeticError, ValueError) as error:
        # States of our own making always merge.
        raise PaoDecodeError(f"the PAOs do not merge: {error}") from None
    first = merged.pop(0, None)
    others = [*((kind, encode(frame)) for kind, frame in merged.items()), *unknown]
    # Or nobody nearer to the root would read any of it.
    check_blocks(others)
    return _encode(notes, b"" if first is None else encode(first), others)


def _schema(versions: Versions, kind: int) -> PaoSchema:
    plan = versions.plan_of(kind)
    assert plan is not None
    return plan.schema
