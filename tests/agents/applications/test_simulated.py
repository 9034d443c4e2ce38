"""Applications in virtual time: what agents promise is kept, whatever the seed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import elf
from elf.agents.errors import JobError
from elf.agents.extensions.application_contract import ApplicationError
from tests.agents.applications.test_applications import Counting, seen


def counting(seed: int) -> elf.Simulation:
    seen.clear()
    return elf.Simulation(Counting, ["web1", "web2"], job="shop/sold", seed=seed)


def test_the_class_that_agents_run_does_the_same_in_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "on_start", lambda self: self.heard.append("start"))
    simulation = counting(3)
    simulation.close([{"product": "tetris", "n": 2}, {"product": "zelda", "n": 1}])
    simulation.run()
    assert simulation.now_ms == 1_000
    for name in ("web1", "web2"):
        assert seen["agent", name] == ["start", {"best": "tetris"}, ("web1", f"thanks, {name}"), "timer"]
    assert sorted(seen["master", "web1"][1:]) == [("web1", {"heard": "tetris"}), ("web2", {"heard": "tetris"})]
    assert simulation.published == [[{"best": "tetris", "of": ["tetris", "zelda"]}]]
    assert simulation.multicasts == [{"best": "tetris"}]
    assert simulation.route("best", "shop/other") == ["shop/other", "tetris"]
    with pytest.raises(JobError, match="on_route failed: KeyError: 'worst'"):
        simulation.route("worst")


class Counter(elf.Application):
    """Multicasts numbers at every tick; agents note them, and tell the master of the sum so far."""

    def __init__(self) -> None:
        self.number = 0
        self.heard: list[int] = []
        self.sums: dict[str, int] = {}
        self.answers: list[Any] = []

    def on_start(self) -> None:
        if self.elf.role == "master":
            self.elf.subscribe("other")
            self.elf.set_timer(100)

    def on_timer(self) -> None:
        self.number += 1
        self.elf.multicast(self.number)
        self.elf.route("other", self.number)
        self.elf.set_timer(100)

    def on_multicast(self, message: Any) -> None:
        self.heard.append(message)
        self.elf.send_to_master(sum(self.heard))

    def on_recv(self, sender: str, message: Any) -> None:
        self.sums[sender] = message

    def on_answer(self, answer: elf.Answer) -> None:
        self.answers.append(answer.error or answer.value)


@given(st.integers(0, 1 << 32), st.integers(0, 2_000), st.integers(0, 2_000))
def test_multicasts_come_once_in_order_also_to_who_was_away(seed: int, cut_ms: int, away_ms: int) -> None:
    simulation = elf.Simulation(Counter, ["web1", "web2"], seed=seed, delay_ms=(1, 250))
    simulation.run(cut_ms)
    simulation.cut("web2")
    simulation.run(away_ms)
    simulation.heal("web2")
    simulation.run(5_000 - cut_ms - away_ms)
    master = simulation.master
    assert isinstance(master, Counter) and master.number == 50
    for name in ("web1", "web2"):
        counter = simulation.agent(name)
        assert isinstance(counter, Counter)
        assert counter.heard == list(range(1, len(counter.heard) + 1)) and len(counter.heard) >= 47
    assert master.sums["web1"] in [sum(range(1, last + 1)) for last in range(40, 51)]


def test_a_seed_repeats_and_others_differ() -> None:
    def trace(seed: int) -> list[Any]:
        simulation = elf.Simulation(Counter, ["web1", "web2"], seed=seed, delay_ms=(1, 250))
        found = []
        for _ in range(100):
            simulation.run(50)
            found.append([len(simulation.agent(name).heard) for name in ("web1", "web2")])  # type: ignore[attr-defined]
        return found

    assert trace(1) == trace(1)
    assert trace(1) != trace(2)


def test_a_new_master_and_an_agent_that_begins_again_know_nothing() -> None:
    simulation = elf.Simulation(Counter, ["web1", "web2"])
    simulation.run(1_050)
    simulation.fail_master("web2")
    simulation.restart("web1")
    simulation.run(250)
    assert simulation.multicasts == [*range(1, 11), 1, 2]
    assert simulation.agent("web1").heard == [1, 2]  # type: ignore[attr-defined]
    assert simulation.agent("web2").heard == [*range(1, 11), 1, 2]  # type: ignore[attr-defined]


def test_other_jobs_answer_as_the_test_says() -> None:
    simulation = elf.Simulation(Counter, ["web1"], job="shop/job")
    simulation.run(130)
    simulation.answer("shop/other", lambda asker, query: [asker, query])
    simulation.run(100)
    assert simulation.master.answers == ["there is no job 'shop/other'", ["shop/job", 2]]  # type: ignore[attr-defined]
    assert simulation.subscribed == {"shop/other"}


@pytest.mark.parametrize("call", ["agent", "cut", "heal", "restart", "fail_master"])
def test_an_agent_that_there_is_not_is_refused_with_those_that_there_are(call: str) -> None:
    simulation = elf.Simulation(Counter, ["web1", "web2"])
    with pytest.raises(ValueError, match="the simulation has no agent 'web3'; there are web1, web2"):
        getattr(simulation, call)("web3")
    assert simulation.subscribed == {"shop/other"}  # the master has not changed


def test_a_simulation_has_an_agent_for_the_master() -> None:
    with pytest.raises(ValueError, match="one agent at least"):
        elf.Simulation(Counter, [])


class Failing(elf.Application):
    def on_result(self, result: elf.Result) -> None:
        assert result.completeness.complete, result.completeness.missing


def test_what_fails_is_raised_where_time_passes() -> None:
    simulation = elf.Simulation(Failing)
    simulation.close([], revision=1)
    simulation.close([], job="shop/other", missing=["web2"])
    with pytest.raises(ApplicationError, match=r"on_result failed: AssertionError: \['web2'\]"):
        simulation.close([], missing=["web2"])
