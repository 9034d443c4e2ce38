"""A job's panes at its master: labels and sizes in memory, frames on disk; and what a commit changes of them.

A pane is what one commit brought: the PAOs of a run of intervals, named by the last of them.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from elf.agents.completeness.label import Label
from elf.agents.jobs.versions import Compiled, Versions
from elf.agents.master.panes.frames import Frames
from elf.agents.master.panes.labels import Labels
from elf.agents.master.panes.ordered import Ordered
from elf.agents.master.panes.repair import holes, stand_ins
from elf.agents.store.checksums import DamagedError
from elf.agents.store.panes import Kind, Panes, Place
from elf.agents.worker.paos import between
from elf.cbt import PaoDecodeError, decode, encode
from elf.cbt.placed import Placed, encode_placed
from elf.cbt.schema import PaoSchema
from elf.overlay.contract import NEVER

log = logging.getLogger(__name__)


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A pane as memory and disk keep it beside its frame.

    `blank`: some row's states are all zero (a key of nulls only), which a difference could not tell from no row.
    """

    label: Label
    rows: int
    blank: bool


class _LabelledPane(msgspec.Struct, frozen=True, array_like=True):
    label: Label
    block: bytes


class Late(NamedTuple):
    """Rows of intervals of one pane, from the first to the last of them, that are late."""

    first: int
    last: int
    rows: pl.DataFrame


class Change:
    """What a commit changes of the past; what serves long windows is filled in last, when the panes are known."""

    def __init__(self) -> None:
        self.labels: dict[int, Label] = {}
        self.frames: dict[int, pl.DataFrame] = {}
        #: Rows of intervals that had been committed before.
        self.late: list[Late] = []
        #: Key -> runs of a pane's intervals, both ends included, of which results say something else now.
        self.changed_in: dict[int, list[tuple[int, int]]] = {}
        #: The run of intervals, both ends included, whose panes are made anew.
        self.replaced: tuple[int, int] | None = None
        #: Panes that are no longer retained, and those whose run another pane now extends.
        self.expired: list[int] = []
        self.extended: list[int] = []
        #: The version of the job that begins anew with this change: what served windows before it goes.
        self.turn: Compiled | None = None
        #: Blocks that serve long windows: those made (None: a mark without content), and those there are no more.
        self.made: dict[Place, pl.DataFrame | Placed | None] = {}
        self.dropped: set[Place] = set()

    @property
    def gone(self) -> list[int]:
        """The panes that there are no more."""
        return [*self.expired, *self.extended]


class Past:
    """The panes of one job.

    Args:
        versions: of the job.
        store: where they are durable.
        committed: the last interval committed; NEVER before the first.
    """

    __slots__ = (
        "_damaged", "_no_rows", "app", "blank", "current", "frames", "labels", "rows", "store", "versions", "windowed",
    )  # fmt: skip

    def __init__(self, versions: Versions, store: Panes, committed: int = NEVER) -> None:
        self.versions = versions
        self.store = store
        #: The version whose windows are served, beside panes, by what is made of these: the last that has panes.
        self.current = versions.at(committed)
        self.app = self.current.plan.definition.app_id
        self.windowed = self.current.plan.window is not None
        self.frames = Frames(self._schema_of, store, self.app)
        self._split_labelled_panes()
        blocks = store.blocks(self.app, Kind.LABEL).items()
        entries = {key: msgspec.msgpack.decode(block, type=Entry) for key, block in blocks}
        self.labels = Labels({key: entry.label for key, entry in entries.items()})
        #: Key -> rows of each pane, in any order.
        self.rows = {key: entry.rows for key, entry in entries.items()}
        #: Keys of those that are blank.
        self.blank = Ordered({key: True for key, entry in entries.items() if entry.blank})
        #: Panes whose labels say that they are damaged, whatever a commit makes of those labels.
        self._damaged = {key: True for key, entry in entries.items() if entry.label.damaged}
        #: Of the kind of PAOs that was written last (`Version.pao_kind`): the block without rows.
        self._no_rows: tuple[int, bytes] | None = None

    @property
    def schema(self) -> PaoSchema:
        """What the PAOs of the current version look like."""
        return self.current.plan.schema

    @property
    def begins(self) -> int:
        """The first interval of the current version's windows."""
        return self.current.version.begins

    @property
    def summed(self) -> bool:
        """Whether windows are differences of running totals."""
        return self.windowed and self.schema.invertible

    def schema_at(self, key: int) -> PaoSchema:
        """Return what the PAOs of a pane look like."""
        return self.versions.at(key).plan.schema if self.windowed else self.schema

    def encoded(self, key: int, frame: pl.DataFrame) -> bytes:
        """Encode a pane's rows; those of most panes are none, and their block is the same for all PAOs of a kind."""
        if frame.height:
            return encode(frame)
        kind = (self.versions.at(key) if self.windowed else self.current).version.pao_kind
        if self._no_rows is None or self._no_rows[0] != kind:
            self._no_rows = kind, encode(frame)
        return self._no_rows[1]

    def _schema_of(self, place: Place) -> PaoSchema:
        kind, key = place
        return self.schema_at(key) if kind == Kind.PANE else self.schema

    def pane(self, key: int, change: Change | None = None) -> pl.DataFrame:
        """Return a pane's rows, or what is left of them; with a change, as they will be after it."""
        changed = change.frames.get(key) if change is not None else None
        if changed is not None:
            return changed
        if self.rows.get(key) == 0:
            return self.schema_at(key).empty()
        try:
            return self.frames.read((Kind.PANE, key))
        except (DamagedError, PaoDecodeError):
            self._stand_in(key, replace(self.labels[key], damaged=1), self.schema_at(key).empty())
            return self.frames.read((Kind.PANE, key))

    def inside(self, first: int, last: int) -> Iterator[pl.DataFrame]:
        """Yield the rows of these intervals, both ends included, pane by pane."""
        for key in list(self.labels.holding(first, last)):
            rows, label = self.pane(key), self.labels[key]
            whole = first <= label.previous + 1 and label.through <= last
            yield rows if whole else between(rows, first, last)

    def entries(self, change: Change) -> dict[int, Entry]:
        """Return what is to be kept beside the frames of the panes that a change touches."""
        damaged = {} if self._is_anew(change) else self._damaged
        for key in damaged.keys() & change.labels.keys():
            change.labels[key] = replace(change.labels[key], damaged=1)
        found: dict[int, Entry] = {}
        for key, label in change.labels.items():
            frame = change.frames.get(key)
            if frame is None:
                found[key] = Entry(label, self.rows[key], key in self.blank)
            else:
                found[key] = self._entry(key, label, frame)
        return found

    def _is_anew(self, change: Change) -> bool:
        """Whether the only pane of a job without window begins anew: what it lacked before, it lacks no more."""
        return change.turn is not None and not self.windowed

    def changed(self, change: Change, entries: dict[int, Entry]) -> None:
        """Take into memory what has become durable."""
        if self._is_anew(change):
            self._damaged.clear()
        self.labels.replace(change.labels, change.gone)
        for key in change.gone:
            self.rows.pop(key, None)
            self._damaged.pop(key, None)
            self.frames.forget((Kind.PANE, key))
        self._note(entries, change.gone)
        for key, frame in change.frames.items():
            if frame.height:
                self.frames.keep((Kind.PANE, key), frame)
            else:  # its size says it all, and most panes of most jobs are such
                self.frames.forget((Kind.PANE, key))
        for place in (*change.dropped, *change.made):
            # Not the frames made: read back, they hold no more memory than they need.
            self.frames.forget(place)

    # ---- damage

    def mend(self, expired: int, committed: int, expected: int) -> None:
        """Put labels that say so where those of some panes are lost; see `elf.agents.master.panes.repair`."""
        # The only pane of a job without window begins anew with a version; what was before is gone on purpose.
        expired = expired if self.windowed else max(expired, self.begins - 1)
        for hole in holes(self.labels.all(), expired, committed):
            for label in stand_ins(hole, self.store.intervals(self.app, Kind.PANE), expected):
                key = label.through if self.windowed else 0
                self.store.note(Kind.LABEL, key)
                frame = self.schema_at(key).empty()
                with contextlib.suppress(DamagedError, PaoDecodeError):
                    frame = self.frames.read((Kind.PANE, key))
                self._stand_in(key, label, frame)

    def _stand_in(self, key: int, label: Label, frame: pl.DataFrame) -> None:
        """Take what is left of a damaged pane for the pane, in memory even where the disk refuses."""
        entry = self._entry(key, label, frame)
        self._damaged[key] = True
        self.labels.replace({key: label}, ())
        self._note({key: entry}, ())
        self.frames.keep((Kind.PANE, key), frame)
        blocks = {(Kind.LABEL, key): msgspec.msgpack.encode(entry), (Kind.PANE, key): encode(frame)}
        try:
            self.store.replace(self.app, blocks, [])
        except (OSError, sqlite3.Error) as error:
            log.error("what is left of a damaged pane is not on disk: %s", error)

    def _note(self, entries: Mapping[int, Entry], gone: Iterable[int]) -> None:
        """Take the sizes of panes into memory, and which ones are blank."""
        self.rows.update((key, entry.rows) for key, entry in entries.items())
        filled = (key for key, entry in entries.items() if not entry.blank)
        self.blank.replace({key: True for key, entry in entries.items() if entry.blank}, [*gone, *filled])

    def _entry(self, key: int, label: Label, frame: pl.DataFrame) -> Entry:
        schema = self.schema_at(key)
        return Entry(label, frame.height, self.windowed and schema.invertible and _is_blank(frame, schema.states))

    def _split_labelled_panes(self) -> None:
        """Bring panes of an older release into the present form."""
        changed: dict[Place, bytes] = {}
        old = self.store.intervals(self.app, Kind.LABELLED_PANE)
        for key in old:
            try:
                block = self.store.block(self.app, Kind.LABELLED_PANE, key)
                kept = msgspec.msgpack.decode(block, type=_LabelledPane)
                frame = decode(kept.block, self.schema)
            except (DamagedError, PaoDecodeError, msgspec.DecodeError):
                continue  # `mend` finds that it is lacking
            changed[Kind.LABEL, key] = msgspec.msgpack.encode(self._entry(key, kept.label, frame))
            changed[Kind.PANE, key] = kept.block
        if old:
            self.store.replace(self.app, changed, [(Kind.LABELLED_PANE, key) for key in old])


def block_of(made: pl.DataFrame | Placed | None) -> bytes:
    """Encode a block that serves long windows; empty for a mark without content."""
    if made is None:
        return b""
    return encode_placed(made) if isinstance(made, Placed) else encode(made)


def _is_blank(frame: pl.DataFrame, states: Iterable[str]) -> bool:
    """Tell whether some row's states, numbers all of them, are zero."""
    if not frame.height:
        return False
    blank = np.ones(frame.height, dtype=bool)
    for state in states:
        blank &= frame[state].to_numpy() == 0
    return bool(blank.any())
