"""The frames of one job's past: on disk, and in memory those that were read or written lately."""

from __future__ import annotations

from collections import OrderedDict

import polars as pl

from agents.store.panes import Panes, Place
from cbt import decode
from cbt.schema import PaoSchema

#: Frames that were read or written lately; resident, they take up to three times as much.
CACHE_BYTES = 8 << 20


class Frames:
    """Reads frames by place, and keeps the latest ones.

    Args:
        schema: the job's.
        store: where they are durable.
        app: the job.
    """

    def __init__(self, schema: PaoSchema, store: Panes, app: bytes) -> None:
        self._schema, self._store, self._app = schema, store, app
        self._frames: OrderedDict[Place, pl.DataFrame] = OrderedDict()
        self._bytes = 0

    def read(self, place: Place) -> pl.DataFrame:
        """Return a frame.

        Raises:
            DamagedError: its block is not there, or not as it was written.
            PaoDecodeError: it is no block of such a frame.
        """
        frame = self._frames.get(place)
        if frame is None:
            frame = decode(self._store.block(self._app, *place), self._schema)
            self.keep(place, frame)
        else:
            self._frames.move_to_end(place)
        return frame

    def keep(self, place: Place, frame: pl.DataFrame) -> None:
        """Take a frame as it is on disk now into memory, and let the ones unused for longest go."""
        self.forget(place)
        self._frames[place] = frame
        self._bytes += int(frame.estimated_size())
        while self._bytes > CACHE_BYTES and len(self._frames) > 1:
            self.forget(next(iter(self._frames)))

    def forget(self, place: Place) -> None:
        """Hold a frame no longer: it has changed on disk or is gone."""
        frame = self._frames.pop(place, None)
        if frame is not None:
            self._bytes -= int(frame.estimated_size())
