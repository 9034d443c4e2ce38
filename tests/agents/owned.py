"""Agents in virtual time, and the keys of two creators."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import AsyncIterator, Mapping

from elf.agents.settings.config import (
    AgentConfig,
    AgentSection,
    ApiSection,
    ArchiveSection,
    OverlaySection,
    SourceConfig,
)
from tests.virtual.agents import Agent, free_port, running

MINE, THEIRS = bytes(range(32)), bytes(range(1, 33))


def config_of(
    folder: pathlib.Path, index: int, ports: list[int], operators: Mapping[str, str], source: str = "orders"
) -> AgentConfig:
    """Return an agent's settings; the first one is joined by the others."""
    return AgentConfig(
        agent=AgentSection(name=f"a{index}", data=str(folder / f"a{index}")),
        overlay=OverlaySection(
            bind=f"127.0.0.1:{ports[index]}", join=[f"127.0.0.1:{ports[0]}"] if index else [], lease_ms=2_000
        ),
        api=ApiSection(bind="127.0.0.1:0", operators=dict(operators)),
        archive=ArchiveSection(enabled=False),
        sources={source: SourceConfig(columns={"product": "STRING"})},
    )


@contextlib.asynccontextmanager
async def cluster(
    folder: pathlib.Path, count: int = 3, operators: Mapping[str, str] | None = None
) -> AsyncIterator[list[Agent]]:
    """Run agents of one source that know each other."""
    ports = [free_port() for _ in range(count)]
    async with running(config_of(folder, index, ports, operators or {}) for index in range(count)) as agents:
        yield agents
