"""The record of what the archive no longer has: which event times, of which source, at which agent.

    FOLDER/source=NAME/.removed-<agent>.json

It is written before the first file goes, so it may say too much after a crash, and never too little. Events of such a
time may be there nevertheless: some that came later, or files that could stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from elf.agents.archive.layout import ArchiveError, DamagedFileError, safe_name, source_folder
from elf.agents.archive.place import Place
from elf.agents.host.disk import make_folder, replace_durably

#: Beyond this, the nearest spans become one, with what lies between them: a record stays small, and pessimistic.
SPANS_MAX = 1_000
#: Before all event times.
EVER_MS = -(2**47)

Span = tuple[int, int]


class Removed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one agent has removed of one source: half-open spans of event time, ascending and apart."""

    agent: str
    spans: tuple[Span, ...]

    def between(self, start_ms: int | None, end_ms: int | None) -> list[Span]:
        """Return the parts of its spans in [start_ms, end_ms); None is no bound."""
        cut = [
            (start if start_ms is None else max(start, start_ms), end if end_ms is None else min(end, end_ms))
            for start, end in self.spans
        ]
        return [span for span in cut if span[0] < span[1]]


def read_removed(folder: Place, source: str) -> list[Removed]:
    """Read what all agents have removed of a source.

    Raises:
        ArchiveError: a record is damaged.
    """
    records = []
    for path in sorted(source_folder(folder, source).glob(".removed-*.json")):
        try:
            records.append(msgspec.json.decode(path.read_bytes(), type=Removed))
        except (OSError, msgspec.DecodeError) as error:
            kind = DamagedFileError if isinstance(error, msgspec.DecodeError) else ArchiveError
            raise kind(f"{path}: the record of removed hours cannot be read: {error}") from None
    return records


def add_removed(root: Path, agent: str, spans: Iterable[Span]) -> None:
    """Note durably, in a source's folder, that an agent's events of these times are going.

    Raises:
        OSError: the disk refused; the record is as it was.
    """
    make_folder(root)
    path = root / f".removed-{safe_name(agent)}.json"
    spans = list(spans)
    known: Sequence[Span] = ()
    said: Sequence[Span] | None = None
    try:
        known = said = msgspec.json.decode(path.read_bytes(), type=Removed).spans
    except FileNotFoundError:
        pass
    except msgspec.DecodeError:
        # What it said is lost: anything older may be gone.
        known = [(EVER_MS, max((end for _, end in spans), default=EVER_MS + 1))]
    joined = join_spans([*known, *spans])
    if said is None or joined != list(said):
        replace_durably(path, msgspec.json.encode(Removed(agent, tuple(joined))))


def join_spans(spans: Iterable[Span], spans_max: int = SPANS_MAX) -> list[Span]:
    """Order spans and join those that touch; then the nearest ones, until there are `spans_max` at most."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    if len(joined) <= spans_max:
        return joined
    gaps = sorted(range(1, len(joined)), key=lambda index: joined[index][0] - joined[index - 1][1])
    bridged = set(gaps[: len(joined) - spans_max])
    few: list[Span] = []
    for index, span in enumerate(joined):
        if index in bridged:
            few[-1] = (few[-1][0], span[1])
        else:
            few.append(span)
    return few
