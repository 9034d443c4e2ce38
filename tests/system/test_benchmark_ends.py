"""A benchmark that is told to end takes the agents that it has started with it."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tests.system.cluster import wait_until

ROOT = pathlib.Path(__file__).parent.parent.parent


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_no_agent_is_left_by_a_benchmark_that_is_told_to_end(number: signal.Signals) -> None:
    command = [sys.executable, str(ROOT / "bench" / "jobs.py"), "--agents", "2", "--jobs", "1", "--rate", "0"]
    agents: set[int] = set()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as bench:
        try:
            agents = wait_until(lambda: found if len(found := children_of(bench.pid)) == 2 else None, "agents run")
            bench.send_signal(number)
            bench.wait(60)
            assert bench.returncode == 128 + number
            wait_until(lambda: not any(map(is_alive, agents)), "no agent is left", 10)
        finally:
            bench.kill()
            for pid in filter(is_alive, agents):
                os.kill(pid, signal.SIGKILL)


def children_of(parent: int) -> set[int]:
    """Return the processes that a process has started."""
    found = set()
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(") ", 1)[1].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[1]) == parent:
            found.add(int(stat.parent.name))
    return found


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that nobody has waited for does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except OSError:
        return False
