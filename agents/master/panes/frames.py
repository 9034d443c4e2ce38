"""The frames of one job's past: on disk, and in memory those that were read or written lately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import polars as pl

from elf.agents.store.panes import Panes, Place
from elf.cbt import decode
from elf.cbt.placed import MARK, Placed, decode_placed
from elf.cbt.schema import PaoSchema

#: Frames that were read or written lately; resident, they take up to three times as much.
CACHE_BYTES = 8 << 20
#: Placed PAOs that were read lately: of 10,000 keys with a few narrow states, about a hundred.
PLACED_CACHE_BYTES = 4 << 20
_Kept = TypeVar("_Kept")


class _Latest(Generic[_Kept]):
    """What was used lately, up to some bytes."""

    __slots__ = ("_bytes", "_bytes_of", "_kept")

    def __init__(self, bytes_of: Callable[[_Kept], int]) -> None:
        self._bytes_of = bytes_of
        self._kept: dict[Place, _Kept] = {}
        self._bytes = 0

    def get(self, place: Place) -> _Kept | None:
        found = self._kept.pop(place, None)
        if found is not None:
            self._kept[place] = found  # the newest are last
        return found

    def keep(self, place: Place, what: _Kept, bytes_max: int) -> None:
        self.forget(place)
        self._kept[place] = what
        self._bytes += self._bytes_of(what)
        while self._bytes > bytes_max and len(self._kept) > 1:
            self.forget(next(iter(self._kept)))

    def forget(self, place: Place) -> None:
        what = self._kept.pop(place, None)
        if what is not None:
            self._bytes -= self._bytes_of(what)


def _frame_bytes(frame: pl.DataFrame) -> int:
    return int(frame.estimated_size())


def _placed_bytes(placed: Placed) -> int:
    return placed.memory_bytes


class Frames:
    """Reads frames by place, and keeps the latest ones.

    Args:
        schema_of: what the frame at a place looks like.
        store: where they are durable.
        app: the job.
    """

    __slots__ = ("_app", "_frames", "_placed", "_schema_of", "_store")

    def __init__(self, schema_of: Callable[[Place], PaoSchema], store: Panes, app: bytes) -> None:
        self._schema_of = schema_of
        self._store = store
        self._app = app
        self._frames = _Latest[pl.DataFrame](_frame_bytes)
        self._placed = _Latest[Placed](_placed_bytes)

    def read(self, place: Place) -> pl.DataFrame:
        """Return a frame.

        Raises:
            DamagedError: its block is not there, or not as it was written.
            PaoDecodeError: it is no block of such a frame.
        """
        frame = self._frames.get(place)
        if frame is None:
            frame = decode(self._store.block(self._app, *place), self._schema_of(place))
            self.keep(place, frame)
        return frame

    def read_merged(self, place: Place) -> pl.DataFrame | Placed:
        """Return a frame or, without their keys, placed PAOs, whichever is there; raises as `read` does."""
        placed = self._placed.get(place)
        if placed is not None:
            return placed
        frame = self._frames.get(place)
        if frame is not None:
            return frame
        block = self._store.block(self._app, *place)
        if block[:1] != MARK:
            frame = decode(block, self._schema_of(place))
            self.keep(place, frame)
            return frame
        placed = decode_placed(block, self._schema_of(place))
        self._placed.keep(place, placed, PLACED_CACHE_BYTES)
        return placed

    def keep(self, place: Place, frame: pl.DataFrame) -> None:
        """Take a frame as it is on disk now into memory, and let the ones unused for longest go."""
        self._frames.keep(place, frame, CACHE_BYTES)

    def forget(self, place: Place) -> None:
        """Hold a frame no longer: it has changed on disk or is gone."""
        self._frames.forget(place)
        self._placed.forget(place)
