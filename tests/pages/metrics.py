"""The page of an agent's metrics, made of what an agent tells."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from prometheus_client import Metric

from elf.agents.agent import Agent
from elf.agents.http.metrics import families
from elf.agents.settings.config import AgentConfig, AgentSection, ArchiveSection, OverlaySection, SourceConfig

PAGE = Path(__file__).resolve().parents[2] / "docs" / "METRICS.md"
_TOP = """# Metrics

`GET /metrics` in the text format of Prometheus, with the agent's token. Base units; counters begin at 0 with the
process and have `_total` behind their name. What to alert on is in [OPERATIONS.md](OPERATIONS.md#what-to-watch). Beside
these there is what `prometheus_client` tells of the process (`process_cpu_seconds_total`,
`process_resident_memory_bytes`, `process_open_fds` and their like).

| metric | type | labels | what it is |
|---|---|---|---|
"""
_BEHIND = """
The kinds of `elf_overlay_total`, that of the tree and of the network, are counted from the start:

{kinds}

`scripts/reference` writes this page.
"""


def page() -> str:
    """Return the page."""
    found = asyncio.run(_told())
    rows = "".join(map(_row, sorted(found, key=lambda family: family.name)))
    kinds = next(family for family in found if family.name == "elf_overlay").samples
    listed = ", ".join(f"`{sample.labels['kind']}`" for sample in kinds)
    return _TOP + rows + _BEHIND.format(kinds=listed)


async def _told() -> list[Metric]:
    """Return what an agent tells that has a source, an archive and a copy of it."""
    with tempfile.TemporaryDirectory() as folder:
        config = AgentConfig(
            agent=AgentSection(data=f"{folder}/data"),
            overlay=OverlaySection(bind="127.0.0.1:0"),
            archive=ArchiveSection(copy_to=f"file://{folder}/copy"),
            sources={"access": SourceConfig(path=f"{folder}/access.log")},
        )
        agent = Agent(config)
        try:
            await agent.start()
            return list(families(agent))
        finally:
            await agent.stop()


def _row(family: Metric) -> str:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    name = f"{name}_info" if family.type == "info" else name
    labels = family.samples[0].labels if family.type == "info" else dict.fromkeys(_labels(family))
    shown = ", ".join(f"`{label}`" for label in labels)
    return f"| `{name}` | {family.type} | {shown} | {family.documentation} |\n"


def _labels(family: Metric) -> tuple[str, ...]:
    return tuple(family._labelnames)
