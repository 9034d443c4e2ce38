"""The demo ends when it is told to, also while Spark still computes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from elf.demo.tour import answer_of
from tests.overlay.cluster import wait_until

#: Ends in order at an interrupt, and says so in a file.
PATIENT = """
import pathlib, sys, time
try:
    pathlib.Path(sys.argv[1], "begun").touch()
    time.sleep(600)
except KeyboardInterrupt:
    pathlib.Path(sys.argv[1], "ended").touch()
"""


async def test_a_command_has_an_answer() -> None:
    command = "import sys; print('out'); print('why', file=sys.stderr); sys.exit(1)"
    assert await answer_of(sys.executable, "-c", command) == (1, "out\n", "why\n")


async def test_a_command_ends_with_whoever_waits_for_it(tmp_path: Path) -> None:
    waiting = asyncio.create_task(answer_of(sys.executable, "-c", PATIENT, str(tmp_path)))
    await wait_until((tmp_path / "begun").exists)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (tmp_path / "ended").exists()
