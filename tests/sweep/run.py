"""`scripts/simulate`: scenarios by name, over many seeds and a few processes.

Owns arguments, processes and the exit code; scenarios are in `scenarios` and `trials`. One line tells how to see a
failed run again. Shell.
"""

from __future__ import annotations

import argparse
import functools
import logging
import multiprocessing
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from elf.overlay.sim.loop import SimLoop
from tests.sweep import rollups, scenarios, trials
from tests.sweep.machines import Cluster
from tests.sweep.report import Outcome


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One thing to simulate: what is done, in which network, and how large unless told otherwise."""

    play: Callable[..., Coroutine[Any, Any, None]]
    agents: int
    #: How to hand over `--minutes`, if the scenario takes a time at all.
    minutes: str = ""
    minute_unit: float = 1.0
    delay_ms: tuple[float, float] = (0.2, 2.0)
    #: Of the cluster.
    options: tuple[tuple[str, int], ...] = ()


SCENARIOS = {
    "join": Scenario(play=scenarios.join, agents=1280),
    "multicast": Scenario(play=scenarios.multicast, agents=1280, delay_ms=scenarios.MULTICAST_DELAY_MS),
    "upkeep": Scenario(play=scenarios.upkeep, agents=1280, minutes="seconds", minute_unit=60.0),
    "churn": Scenario(play=trials.churn, agents=1000, minutes="minutes"),
    "rush": Scenario(play=trials.rush, agents=2000),
    "rollup": Scenario(
        play=rollups.rollup,
        agents=1280,
        delay_ms=rollups.DELAY_MS,
        options=(("disk_ms", rollups.DISK_MS), ("leap_after_ms", 10_000)),
    ),
    "faults": Scenario(
        play=trials.faults,
        agents=9,
        minutes="seconds",
        minute_unit=60.0,
        options=(("skew_ms", 5_000), ("disk_ms", 20), ("leap_after_ms", 3_000)),
    ),
}


def run(name: str, seed: int, *, agents: int | None = None, minutes: float | None = None, **options: Any) -> Outcome:
    """Play one scenario once; what goes wrong in it becomes a failure of the outcome, never an exception."""
    scenario = SCENARIOS[name]
    outcome = Outcome(name, seed, agents or scenario.agents)
    loop = SimLoop(seed, delay_ms=scenario.delay_ms)
    if minutes is not None and scenario.minutes:
        options[scenario.minutes] = minutes * scenario.minute_unit
    began_s = time.monotonic()
    try:
        loop.run(_play(scenario, loop, outcome, options))
    except Exception as error:
        outcome.failures.append(f"{type(error).__name__}: {error}")
    outcome.wall_s = time.monotonic() - began_s
    outcome.virtual_s = loop.time()
    outcome.digest = loop.digest
    outcome.failures += loop.errors
    return outcome


async def _play(scenario: Scenario, loop: SimLoop, outcome: Outcome, options: dict[str, Any]) -> None:
    settings: dict[str, Any] = dict(scenario.options)
    await scenario.play(Cluster(loop, **settings), outcome, **options)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns 1 if anything failed."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="scripts/simulate", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(SCENARIOS)}; default: faults")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds to run each with")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--agents", type=int, help="how many agents; default: the scenario's own")
    parser.add_argument("--minutes", type=float, help="virtual minutes, for upkeep, churn and faults")
    parser.add_argument("--jobs", type=int, default=2, help="processes that run at the same time")
    parser.add_argument("--quiet", action="store_true", help="print seeds and digests only, and what failed")
    chosen = parser.parse_args(argv)
    names = chosen.scenarios or ["faults"]
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        parser.error(f"no scenario {unknown[0]!r}; there are {', '.join(SCENARIOS)}")
    for option in ("seeds", "agents", "minutes", "jobs"):
        value = getattr(chosen, option)
        if value is not None and value <= 0:
            parser.error(f"--{option} is {value}; it has to be above 0")
    logging.disable(logging.ERROR)
    plays = [(name, seed) for name in names for seed in range(chosen.seed, chosen.seed + chosen.seeds)]
    one = functools.partial(_one, agents=chosen.agents, minutes=chosen.minutes)
    failed = 0
    if chosen.jobs > 1 and len(plays) > 1:
        # Fresh processes: what one run leaves in caches must not reach the next.
        with multiprocessing.get_context("spawn").Pool(chosen.jobs, maxtasksperchild=20) as pool:
            for outcome in pool.imap(one, plays):
                failed += _show(outcome, chosen)
    else:
        for play in plays:
            failed += _show(one(play), chosen)
    print(f"{len(plays) - failed} of {len(plays)} runs passed")
    return 1 if failed else 0


def _one(play: tuple[str, int], agents: int | None, minutes: float | None) -> Outcome:
    logging.disable(logging.ERROR)
    return run(*play, agents=agents, minutes=minutes)


def _show(outcome: Outcome, chosen: argparse.Namespace) -> bool:
    lines = outcome.lines()
    print("\n".join(lines if outcome.failures or not chosen.quiet else lines[:1]), flush=True)
    if outcome.failures:
        extra = f" --agents {outcome.agents}" + (f" --minutes {chosen.minutes}" if chosen.minutes is not None else "")
        print(f"  again: scripts/simulate {outcome.scenario} --seed {outcome.seed}{extra}", flush=True)
    return bool(outcome.failures)


if __name__ == "__main__":
    sys.exit(main())
