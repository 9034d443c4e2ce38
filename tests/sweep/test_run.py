"""Every scenario in small: the large ones are `scripts/simulate`'s."""

from __future__ import annotations

import pytest

from tests.sweep import run as sweep
from tests.sweep.report import Outcome
from tests.sweep.runtime import Runtime


def passed(name: str, seed: int = 1, **options: float) -> Outcome:
    outcome = sweep.run(name, seed, **options)
    assert outcome.failures == [], "\n".join(outcome.lines())
    return outcome


def figure(outcome: Outcome, what: str) -> float:
    return next(each.measured for each in outcome.figures if each.what.startswith(what))


@pytest.mark.parametrize("agents", [1, 2, 20, 150])
def test_join(agents: int) -> None:
    outcome = passed("join", agents=agents, trees=2, keys=50)
    assert figure(outcome, "hops of a request, mean") < 2.6


def test_multicast() -> None:
    outcome = passed("multicast", agents=120, times=3)
    assert figure(outcome, "ms until all are notified, most") > 0.5
    assert figure(outcome, "ms until all have a record, most") > 0.5


def test_upkeep() -> None:
    assert figure(passed("upkeep", agents=60, minutes=0.5), "packets/s an agent, mean") > 0.5


def test_churn() -> None:
    assert figure(sweep.run("churn", 1, agents=60, minutes=1), "lookups right, %") == 100


def test_rush() -> None:
    passed("rush", agents=120)


def test_rollup() -> None:
    outcome = passed("rollup", agents=40)
    assert figure(outcome, "8 gone for good: s until results flow") > 0.5


@pytest.mark.parametrize("seed", range(1, 9))
def test_faults(seed: int) -> None:
    outcome = passed("faults", seed, minutes=0.4)
    assert figure(outcome, "items counted once each") > 50


def test_the_checkers_notice_a_disk_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever forgets after a crash what it has committed counts it twice or loses it: some seed must show that."""

    def after_crash(self: Runtime) -> Runtime:
        return Runtime(self.name, self._disk)

    monkeypatch.setattr(Runtime, "after_crash", after_crash)
    assert any(sweep.run("faults", seed, minutes=0.4).failures for seed in range(1, 4))


@pytest.mark.parametrize("option", ["--seeds", "--agents", "--minutes", "--jobs"])
def test_counts_are_above_zero(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        sweep.main(["join", option, "0"])
    assert ended.value.code == 2
    assert "above 0" in capsys.readouterr().err


def test_a_failure_is_printed_with_its_seed_and_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep.main(["join", "--agents", "20", "--jobs", "1", "--seeds", "2", "--quiet"]) == 0
    assert "2 of 2 runs passed" in capsys.readouterr().out
    broken = sweep.Scenario(play=lambda cluster, outcome: 1 / 0, agents=5)
    monkeypatch.setitem(sweep.SCENARIOS, "join", broken)
    assert sweep.main(["join", "--seed", "7", "--jobs", "1"]) == 1
    printed = capsys.readouterr().out
    assert "again: scripts/simulate join --seed 7 --agents 5" in printed and "ZeroDivisionError" in printed
