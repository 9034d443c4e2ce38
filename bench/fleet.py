"""Agents as processes on loopback, for benchmarks of many of them."""

from __future__ import annotations

import contextlib
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.system.cluster import AgentProcess, wait_until  # noqa: E402

#: Started at a time: each takes more than a second of a core.
AT_A_TIME = 4
START_S = 300.0


@contextlib.contextmanager
def fleet(
    folder: pathlib.Path,
    count: int,
    sources: Callable[[int], dict[str, dict[str, Any]]],
    before: Sequence[str] = (),
    overlay: dict[str, Any] | None = None,
    trusted: dict[str, str] | None = None,
) -> Iterator[list[AgentProcess]]:
    """Run agents without archives, and end them all whatever happens.

    Args:
        folder: for all of them.
        count: how many.
        sources: settings of an agent's sources, by its number from 0 on.
        before: put in front of their command lines.
        overlay: settings of theirs.
        trusted: the creators whose functions they run, with their keys.
    """
    agents: list[AgentProcess] = []
    try:
        for number in range(count):
            join = [agents[0].overlay] if agents else []
            off = {"enabled": False}
            name = f"web{number + 1}"
            reads = sources(number)
            agents.append(AgentProcess(folder, name, reads, join, overlay, before=before, archive=off, trusted=trusted))
        agents[0].start()
        for first in range(1, count, AT_A_TIME):
            batch = agents[first : first + AT_A_TIME]
            for agent in batch:
                agent.launch()
            for agent in batch:
                wait_until(agent.ready, f"agent {agent.name} runs", START_S)
        yield agents
    finally:
        # All at once: the others would look for each one that leaves.
        for agent in agents:
            if agent.process is not None:
                agent.process.terminate()
        for agent in agents:
            agent.stop()
