"""`elf demo` as a user has it: windows come, a killed agent is named by the label, and nothing is left of it."""

from __future__ import annotations

import asyncio
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.elf.demo.test_ties import processes_of
from tests.overlay.cluster import wait_until


@pytest.fixture
def demo(tmp_path: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "elf", "demo", "--kill-after", "0.1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    yield process
    process.kill()
    process.communicate()


def read_until(process: subprocess.Popen[str], end: str) -> str:
    """Return what a process prints up to a line with some text in it."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if end in line:
            return seen
    raise AssertionError(f"it ended without {end!r}: {seen}{process.stderr.read() if process.stderr else ''}")


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_shows_windows_and_who_is_missing_and_leaves_nothing(
    demo: subprocess.Popen[str], tmp_path: pathlib.Path, end: signal.Signals
) -> None:
    seen = read_until(demo, "the label names it")
    killed = re.search(r"killed the agent of (web[23])", seen)
    assert killed is not None
    assert "final · 3 of 3 agents" in seen and "Dune" in seen
    assert f"some or all missing of {killed[1]}" in seen
    assert "\x1b" not in seen, "plain lines for what is no terminal"
    demo.send_signal(end)
    demo.communicate(timeout=60)
    assert demo.returncode == 0
    assert not processes_of(tmp_path)
    assert not list(tmp_path.iterdir())


def test_killed_it_leaves_nothing_either(demo: subprocess.Popen[str], tmp_path: pathlib.Path) -> None:
    read_until(demo, "published")
    assert list(tmp_path.iterdir())
    demo.kill()
    demo.wait()
    asyncio.run(wait_until(lambda: not processes_of(tmp_path) and not list(tmp_path.iterdir())))
