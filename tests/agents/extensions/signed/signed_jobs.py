"""Jobs that bring functions along, and agents that trust their creator, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path
from typing import Any

from elf.agents.agent import Agent
from elf.agents.errors import ElfError
from elf.agents.extensions.signed.job_file import signed_text
from elf.agents.extensions.signed.signatures import public_key
from elf.agents.http.agent_service import Service
from elf.agents.settings.config import (
    AgentConfig,
    AgentSection,
    ArchiveSection,
    FunctionsSection,
    OverlaySection,
    SourceConfig,
)
from tests.ports import free_port

SECRET, OTHER = bytes(range(32)), bytes(range(1, 33))
TRUSTED = {"shop": public_key(SECRET)}
COLUMNS = {"path": "STRING", "cents": "BIGINT"}
#: A whole minute that has passed.
START_MS = (time.time_ns() // 60_000_000_000 - 2) * 60_000
SECTION = """
import re

def section(path):
    found = re.match("/shop/([a-z]+)/", path)
    return found and found[1]
"""
QUERY = """SELECT section(path) AS section, count(*) AS clicks
FROM clicks
WHERE section(path) IS NOT NULL
GROUP BY section(path), window(ts, '60 seconds')
ORDER BY clicks DESC"""


def text_of(name: str, source: str = SECTION, query: str = QUERY, creator: str = "shop") -> str:
    """Return a job's file, not signed."""
    return f"""name = "{name}"
creator = "{creator}"
query = \"\"\"
{query}\"\"\"
[options]
interval = "1s"
lateness = "0s"
leap_after = "300ms"
[functions.section]
args = ["STRING"]
returns = "STRING"
source = '''{source}'''
"""


def signed(text: str, secret: bytes = SECRET) -> str:
    """Return a job's file, signed."""
    return signed_text(text, secret)


def config_of(folder: Path, name: str, trusted: dict[str, str] | None = None, join: list[str] | None = None) -> Any:
    """Return an agent's settings."""
    return AgentConfig(
        agent=AgentSection(name=name, data=str(folder / name)),
        overlay=OverlaySection(bind=f"127.0.0.1:{free_port()}", join=join or []),
        archive=ArchiveSection(enabled=False),
        functions=FunctionsSection(trusted=TRUSTED if trusted is None else trusted),
        sources={"clicks": SourceConfig(columns=COLUMNS)},
    )


async def click(agent: Agent, *paths: str, at_ms: int = START_MS) -> None:
    """Have an agent read clicks."""
    lines = [{"ts": at_ms + number, "path": path, "cents": number} for number, path in enumerate(paths)]
    await Service(agent).ingest("clicks", "".join(json.dumps(line) + "\n" for line in lines).encode())


async def rows_of(
    agent: Agent, name: str, least: int, start_ms: int = START_MS, wanted: list[tuple[Any, ...]] | None = None
) -> list[tuple[Any, ...]]:
    """Return the rows of the window that begins then once it has so many of them, or once they are those wanted."""
    deadline_s, last = time.monotonic() + 60, None
    while time.monotonic() < deadline_s:
        with contextlib.suppress(ElfError):
            last = await Service(agent).result("shop", name, f"{start_ms}/{start_ms + 60_000}", None, None)
            rows = [tuple(row.values()) for row in last["rows"]]
            if len(rows) >= least and wanted in (None, rows):
                return rows
        await asyncio.sleep(0.02)
    raise AssertionError(f"the window has not these rows: {last}")
