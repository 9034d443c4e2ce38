"""A time of day that tests set for the agents they start."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator

import pytest

from tests.system.ticking import wall_ms

#: What fakes the time in a process that is started with it on its path.
FAKED = pathlib.Path(__file__).with_name("faked")


class TimeOfDay:
    """The clock of agents that are started in `held`, and of what is written for them."""

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        self.set_by(0)

    def set_by(self, offset_s: int) -> None:
        self.offset_s = offset_s
        # In one step: agents read the file whenever they ask what the time is.
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{offset_s:+d}\n")
        draft.replace(self._file)

    def __call__(self) -> int:
        return wall_ms() + self.offset_s * 1_000

    @contextlib.contextmanager
    def held(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        with patch.context() as agents:
            agents.setenv("PYTHONPATH", str(FAKED), prepend=os.pathsep)
            agents.setenv("ELF_TESTS_TIME_OF_DAY", str(self._file))
            yield
