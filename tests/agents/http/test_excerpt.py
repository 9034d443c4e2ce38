"""Of each kind of reason some are told, and how many more there are."""

from types import SimpleNamespace
from typing import Any

import pytest

from elf.agents.http.agent_service import Service
from elf.agents.http.excerpt import TOLD_MAX, excerpt
from elf.agents.settings.config import AgentConfig, ApiSection


@pytest.mark.parametrize("count", [0, 1, TOLD_MAX])
def test_few_lines_are_all_told(count: int) -> None:
    lines = [f"job {number}" for number in range(count)]
    assert excerpt(iter(lines), "jobs wait") == lines


def test_of_many_it_is_told_how_many_they_are() -> None:
    told = excerpt((f"job {number}" for number in range(1000)), "jobs wait")
    assert told == [*(f"job {number}" for number in range(TOLD_MAX)), f"and {1000 - TOLD_MAX} more: jobs wait"]


@pytest.mark.parametrize("is_open", [True, False])
def test_an_open_api_is_said(is_open: bool) -> None:
    agent: Any = SimpleNamespace(
        config=AgentConfig(api=ApiSection(open=is_open)),
        node=SimpleNamespace(unheard=lambda: ["the clock of b ..."]),
        stores=SimpleNamespace(audit=SimpleNamespace(trouble="")),
        membership=SimpleNamespace(notes=list),
        reconfiguration=SimpleNamespace(notes=list),
        sources=SimpleNamespace(auditor=SimpleNamespace(notes=list)),
    )
    service: Any = SimpleNamespace(_agent=agent)
    notes = Service.notes(service)
    assert notes[-1] == "the clock of b ..."
    assert ["open to all users" in note for note in notes[:-1]] == [True] * is_open


def test_a_thousand_jobs_that_cannot_run_hide_no_other_reason() -> None:
    jobs = [(SimpleNamespace(definition=SimpleNamespace(key=f"c/{number}")), "no") for number in range(1000)]
    agent: Any = SimpleNamespace(
        neighbours=SimpleNamespace(entering=SimpleNamespace(reasons=lambda: ["no agent answers"]), trouble="clock"),
        node=SimpleNamespace(refused=lambda: {f"h{number}:1": "no" for number in range(1000)}),
        intakes={"ev": SimpleNamespace(trouble="the disk is full")},
        catalogue=SimpleNamespace(running=list, unusable=lambda name: jobs),
        attachments=SimpleNamespace(pending={"c/late": "waits for the disk"}),
    )
    service: Any = SimpleNamespace(_agent=agent, departure=SimpleNamespace(is_under_way=False))
    is_ready, reasons = Service.ready(service)
    assert not is_ready and len(reasons) < 50
    assert {"no agent answers", "clock", "source ev: the disk is full", "job c/late: waits for the disk"} <= {*reasons}
