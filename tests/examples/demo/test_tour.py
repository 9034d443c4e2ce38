"""The demo ends when it is told to, also while Spark still computes."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

import pytest

from examples.demo.tour import answer_of
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

#: Ends at no interrupt, and neither does what it started, which has the same pipes.
STUBBORN = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[1], "child").write_text(str(child.pid))
pathlib.Path(sys.argv[1], "begun").touch()
time.sleep(600)
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


def test_a_stubborn_command_is_ended_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("examples.demo.tour.ENDING_S", 0.1)

    async def run() -> None:
        waiting = asyncio.create_task(answer_of(sys.executable, "-c", STUBBORN, str(tmp_path)))
        await wait_until((tmp_path / "begun").exists)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    # A transport that outlives its loop says so when it is collected, and warnings are errors.
    asyncio.run(run())
    gc.collect()
    child = Path("/proc", (tmp_path / "child").read_text(), "stat")
    asyncio.run(wait_until(lambda: not child.exists() or child.read_text().split()[2] == "Z"))
