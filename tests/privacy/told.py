"""Everything that an agent tells, or leaves on its disk, of the lines of its sources."""

from __future__ import annotations

import asyncio
import logging
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from elf.agents.errors import ElfError
from elf.agents.http.agent_service import Service
from elf.agents.settings.config import (
    AgentConfig,
    AgentSection,
    ApiSection,
    OverlaySection,
    PrivacySection,
    SourceConfig,
)
from elf.agents.sources.format import make_format
from elf.agents.sources.times.zones import UTC
from tests.privacy.given import ADDRESS, Given
from tests.virtual.agents import Agent, free_port, time_s

#: Until what was read must be counted, in virtual seconds.
_PATIENCE_S = 300


class Heard(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        self.said.append(record.getMessage())


async def told(folder: pathlib.Path, sources: dict[str, Given], ip: str) -> dict[str, str]:
    """Run an agent on lines, half of which it is pushed where they are JSON; return all that it tells, by where."""
    key = folder / "key"
    key.write_text("0123456789abcdef")
    configs = {}
    for name, each in sources.items():
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in" / f"{name}.log").write_text("".join(line + "\n" for line in each.lines))
        privacy = PrivacySection(ip=ip, key_file=str(key) if ip == "hash" else "", ip_columns=each.ip_columns)
        path = "" if each.format == "json" else str(folder / "in" / f"{name}.log")
        configs[name] = SourceConfig(
            path=path, format=each.format, time_zone="UTC", columns=dict(each.columns), privacy=privacy
        )
    config = AgentConfig(
        agent=AgentSection(name="web", data=str(folder / "data")),
        overlay=OverlaySection(bind=f"127.0.0.1:{free_port()}"),
        api=ApiSection(bind="127.0.0.1:0"),
        sources=configs,
    )
    heard, root = Heard(), logging.getLogger()
    root.addHandler(heard)
    agent = Agent(config)
    try:
        await agent.start()
        found = await _asked(agent, folder, sources, leaves=ip != "keep")
    finally:
        await agent.stop()
        root.removeHandler(heard)
    found["log"] = "\n".join(heard.said)
    return found | dict(_left(folder / "data"))


async def _asked(agent: Agent, folder: pathlib.Path, sources: dict[str, Given], *, leaves: bool) -> dict[str, str]:
    service, found, jobs = Service(agent), dict[str, str](), dict[str, str]()
    for name, each in sources.items():
        if each.format == "json":
            await service.ingest(name, (folder / "in" / f"{name}.log").read_bytes())
        names = list(make_format(each.format, zone=UTC).columns or each.columns)
        items = ", ".join(f"max(`{column}`) AS m{at}, min(`{column}`) AS l{at}" for at, column in enumerate(names))
        query = f"SELECT `{names[0]}` AS k, {items}, count(*) AS n FROM {name} GROUP BY `{names[0]}`"
        jobs[name] = query
        for text in (query.replace("FROM", ", nope FROM"), query.replace("count(*)", "sum(`ts`)"), query):
            try:
                await service.publish(
                    f'name = "{name}"\ncreator = "shop"\nquery = """{text}"""\n', "job.toml", None, None
                )
            except ElfError as error:
                found[f"refusal of {name}"] = str(error)
    deadline = time_s() + _PATIENCE_S
    for name in jobs:
        # Of lines in parts the last ones may wait for more.
        while agent.intakes[name].pump.counters.read < len(sources[name].lines) // 2:
            assert time_s() < deadline, f"{name} is not read"
            await asyncio.sleep(0.5)
        spool = folder / "data" / "push" / f"{name}.log"
        while leaves and spool.stat().st_size:
            assert time_s() < deadline, f"what {name} was pushed is still there"
            await asyncio.sleep(0.5)
    await asyncio.sleep(20)
    for name in jobs:
        found[f"result of {name}"] = await _said(service.result("shop", name, "latest", None, None))
        found[f"explanation of {name}"] = await _said(service.explain("shop", name))
    found["state"] = str((service.ready(), service.health(), service.notes(), await service.jobs()))
    found["metrics"] = service.metrics().decode()
    return found


async def _said(answer: Any) -> str:
    try:
        return str(await answer)
    except ElfError as error:
        return str(error)


def _left(folder: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Yield what lies on an agent's disk, as texts."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".parquet":
            events = pl.read_parquet(path, hive_partitioning=False)
            texts = [column for column in events.iter_columns() if column.dtype == pl.String]
            yield str(path), "\n".join(f"{each.name}: {value}" for each in texts for value in each.drop_nulls())
        elif path.is_file():
            yield str(path), path.read_bytes().decode("latin-1")


def leaks(found: dict[str, str], sources: Iterable[Given]) -> list[str]:
    """Return where a full address of the lines is told, and what stands around it."""
    secrets = {match for each in sources for line in each.lines for match in ADDRESS.findall(line)}
    return [
        f"{where}: ...{text[max(0, match.start() - 100) : match.end() + 40]!r}"
        for where, text in found.items()
        for match in ADDRESS.finditer(text)
        # In binary files a prefix may have digits of something else behind it.
        if match[0] in secrets or not where.startswith("/")
    ]
