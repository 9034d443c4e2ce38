"""What happens to a fleet, and when: drawn from a seed alone. Pure.

Who is struck is drawn as a number in [0, 1), or as "a master": who is up, and who is master, only the run knows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

#: How long a killed agent stays away, from and to, and in which share of kills: restarted at once by its supervisor,
#: by somebody, or after a reboot.
AWAY_S = ((0.60, 0.1, 1.0), (0.28, 1.0, 8.0), (0.12, 8.0, 20.0))
#: Share of kills that aim at a master, and of those that come with the kill before, in the same moment.
AT_MASTER, TOGETHER = 0.3, 0.15
SHORT_STOP_S, LONG_STOP_S = 3.0, 30.0
CUT_S = (2.0, 15.0)


@dataclass(frozen=True)
class Fault:
    """One blow: kill -9 and a restart after `seconds`, SIGSTOP for so long, or deafness to others for so long."""

    at_s: float
    kind: Literal["kill", "stop", "cut"]
    seconds: float
    #: Picks the victim, and for a cut the share of the others whom it does not hear, and which.
    rank: float
    at_master: bool
    breadth: float


def draw(seed: int, kills: int, duration_s: float) -> list[Fault]:
    """Return a run's faults, ascending in time: a stop of 3 s and a cut for ten kills, a stop of 30 s for fifty."""
    rng = random.Random(f"chaos {seed}")
    faults: list[Fault] = []

    def add(kind: Literal["kill", "stop", "cut"], at_s: float, seconds: float, master_share: float) -> None:
        breadth = rng.choice((rng.random(), 1.0))
        faults.append(Fault(at_s, kind, seconds, rng.random(), rng.random() < master_share, breadth))

    at_s = 0.0
    for _ in range(kills):
        if not faults or rng.random() >= TOGETHER:
            at_s = rng.uniform(0, duration_s)
        _, shortest, longest = rng.choices(AWAY_S, [share for share, _, _ in AWAY_S])[0]
        add("kill", at_s, min(rng.uniform(shortest, longest), duration_s / 3), AT_MASTER)
    for _ in range(_for_each(10, kills)):
        add("stop", rng.uniform(0, max(0.0, duration_s - SHORT_STOP_S)), SHORT_STOP_S, AT_MASTER)
        add("cut", rng.uniform(0, max(0.0, duration_s - CUT_S[0])), rng.uniform(*CUT_S), AT_MASTER)
    for _ in range(_for_each(50, kills)):
        add("stop", rng.uniform(0, max(0.0, duration_s - LONG_STOP_S)), LONG_STOP_S, AT_MASTER)
    return sorted(faults, key=lambda fault: fault.at_s)


def _for_each(step: int, kills: int) -> int:
    return -(-kills // step)
