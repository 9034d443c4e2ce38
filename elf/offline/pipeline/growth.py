"""What has changed in the archives since a table was brought up to date. Pure.

The table remembers the files whose events it holds. A file that is new, or gone, touches its event times. A file that
was merged of known ones touches nothing: its events are the same. Where that cannot be told (it was merged of a file
that came and went unseen), its times count as touched, which costs time and changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from elf.agents.archive.layout import ArchivedFile
from elf.agents.archive.removed import Span, join_spans


class Taken(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A file whose events a table holds, or is about to; `spans` are half-open, of event time."""

    agent: str
    sha256: str
    rows: int
    spans: tuple[Span, ...]


class Growth(msgspec.Struct, frozen=True):
    """What a look at the archives found.

    Attributes:
        taken: all files that are there now, by their path below the archive's folder.
        spans: event times of files that are new, or gone.
        files: how many are new.
        vanished: agents of which there were files, and is none any more.
    """

    taken: dict[str, Taken]
    spans: list[Span]
    files: int
    vanished: list[str]


def compare_files(
    known: Mapping[str, Taken], files: Sequence[ArchivedFile], spans_of: Callable[[ArchivedFile], Sequence[Span]]
) -> Growth:
    """Compare the files that are there with those that were taken in.

    Args:
        known: the files that were there, by their path below the archive's folder.
        files: those that are there now, of all archives.
        spans_of: tells the event times of a file; asked about new ones only.
    """
    taken: dict[str, Taken] = {}
    spans: list[Span] = []
    merged: set[str] = set()
    new = 0
    for file in files:
        entry = file.entry
        before = known.get(entry.path)
        if before is not None and before.sha256 == entry.sha256:
            taken[entry.path] = before
            continue
        names = [str(PurePosixPath(entry.path).with_name(name)) for name in entry.replaces]
        parts = [known[name] for name in names if name in known]
        # Files replace what those that they were merged of replaced, so not all are known; as many rows are all of it.
        if parts and sum(part.rows for part in parts) == entry.rows:
            merged.update(names)
            times = join_spans(span for part in parts for span in part.spans)
        else:
            times = list(spans_of(file))
            spans += times
            new += 1
        taken[entry.path] = Taken(entry.agent, entry.sha256, entry.rows, tuple(times))
    for path, gone in known.items():
        if path not in merged and (path not in taken or taken[path].sha256 != gone.sha256):
            spans += gone.spans
    vanished = {each.agent for each in known.values()} - {each.agent for each in taken.values()}
    return Growth(taken, spans, new, sorted(vanished))
