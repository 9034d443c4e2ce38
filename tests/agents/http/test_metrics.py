"""What is counted is in the metrics, whatever its kind."""

import pathlib

import pytest

from elf.agents.agent import Agent
from elf.agents.host.disk_damage import KINDS, Damages
from elf.agents.http.metrics import damages_by_kind, render_metrics
from elf.agents.settings.config import AgentConfig, AgentSection, OverlaySection, SourceConfig
from elf.agents.sources.counters import Oddities
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, Panes


@pytest.mark.parametrize("kind", Kind)
def test_damage_of_each_kind_of_block_is_counted(tmp_path: pathlib.Path, kind: Kind) -> None:
    database = Database(tmp_path / "state.db")
    before = damages_by_kind(database.damages)
    assert set(before.values()) == {0} and set(KINDS) < set(before), "there from the start"
    Panes(database).note(kind, 5)
    after = damages_by_kind(database.damages)
    assert {name: count for name, count in after.items() if count} == {kind.word: 1}
    assert set(after) == set(before)
    database.close()


def test_damage_of_a_kind_that_nobody_listed_is_counted_too() -> None:
    damages = Damages()
    damages.note("contacts", "contacts.json is damaged")
    assert damages_by_kind(damages)["contacts"] == 1


async def test_values_that_do_not_fit_are_counted_by_column(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.log").write_text("")
    sources = {"clicks": SourceConfig(path=str(tmp_path / "a.log"))}
    config = AgentConfig(
        agent=AgentSection(data=str(tmp_path / "data")), overlay=OverlaySection(bind="127.0.0.1:0"), sources=sources
    )
    agent = Agent(config)
    try:
        await agent.start()
        agent.intakes["clicks"].pump.oddities += Oddities(truncated=2, mistyped={"n": 3, "m": 1})
        text = render_metrics(agent).decode()
    finally:
        await agent.stop()
    assert 'kernels="c"' in text
    for kind, column, count in (("truncated", "", 2), ("mistyped", "n", 3), ("mistyped", "m", 1), ("nul_bytes", "", 0)):
        assert f'elf_line_oddities_total{{column="{column}",kind="{kind}",source="clicks"}} {count}.0\n' in text


async def test_the_process_tells_of_itself_beside_the_agent(tmp_path: pathlib.Path) -> None:
    config = AgentConfig(agent=AgentSection(data=str(tmp_path)), overlay=OverlaySection(bind="127.0.0.1:0"))
    agent = Agent(config)
    try:
        await agent.start()
        for _ in range(2):
            text = render_metrics(agent).decode()
            assert text.count("# TYPE process_resident_memory_bytes gauge") == 1
            for name in ("process_cpu_seconds_total", "process_open_fds", "process_max_fds", "elf_contacts"):
                assert f"\n{name} " in text
    finally:
        await agent.stop()
