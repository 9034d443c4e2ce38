"""A time of day that tests set for the agents they start (libfaketime)."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

import pytest

from tests.system.ticking import wall_ms

LIBRARY = next(iter(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)


class TimeOfDay:
    """The clock of agents that are started in `held`, and of what is written for them."""

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        self.set_by(0)

    def set_by(self, offset_s: int) -> None:
        self.offset_s = offset_s
        # In one step: the library reads the file at every question.
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{offset_s:+d}\n")
        draft.replace(self._file)

    def __call__(self) -> int:
        return wall_ms() + self.offset_s * 1_000

    @contextlib.contextmanager
    def held(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        assert LIBRARY is not None, "scripts/setup --test installs faketime"
        with patch.context() as agents:
            agents.setenv("LD_PRELOAD", str(LIBRARY))
            agents.setenv("FAKETIME_TIMESTAMP_FILE", str(self._file))
            agents.setenv("FAKETIME_NO_CACHE", "1")
            agents.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            agents.setenv("FAKETIME_FORCE_MONOTONIC_FIX", "0")
            yield
