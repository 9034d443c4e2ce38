"""How many trees each agent is root of, when jobs are published one after another: only the choice is real.

The keys are `elf.overlay.placement.candidate_key`'s and the choice is `choose_salt`'s, as the publisher makes it; what
a candidate would answer is counted here. Pure. Paper: §4 (share of agents that are root of fewer than 3 of 500 trees,
and so on); OVERLAY section 5.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from elf.overlay.ids import ID_BYTES
from elf.overlay.placement import SALTS, candidate_key, choose_salt

AGENTS = 1_280
#: Trees, the bound that an agent's roots stay below, and the share of agents for which the paper says so.
PAPER = ((500, 3, 0.995), (1_000, 5, 0.995), (2_000, 5, 0.95))


def place_trees(agents: Sequence[int], apps: Sequence[bytes], salts: Sequence[int] = SALTS) -> list[int]:
    """Place trees one after another and return how many each agent is root of. O(trees * agents).

    Args:
        agents: ids as numbers.
        apps: ids of the jobs, in the order in which they are published.
        salts: candidate keys in use; `(0,)` places by one key only, as the paper does.
    """
    roots = dict.fromkeys(agents, 0)
    for app in apps:
        candidates = [_closest(agents, candidate_key(app, salt)) for salt in salts]
        chosen = choose_salt([roots[candidate] for candidate in candidates])
        assert chosen is not None
        roots[candidates[chosen]] += 1
    return list(roots.values())


@dataclass(frozen=True, slots=True)
class Share:
    """Over several draws of ids: the share of agents with fewer than `below` roots, and the most roots of one."""

    trees: int
    below: int
    mean: float
    worst: float
    roots_max: int


def measure(
    trees: int, below: int, draws: int, *, agents: int = AGENTS, seed: int = 0, salts: Sequence[int] = SALTS
) -> Share:
    """Place so many trees on each of several draws of agents."""
    shares, most = [], 0
    for draw in range(draws):
        rng = random.Random(seed + draw)
        ids = [rng.getrandbits(8 * ID_BYTES) for _ in range(agents)]
        roots = place_trees(ids, [rng.randbytes(ID_BYTES) for _ in range(trees)], salts)
        shares.append(sum(count < below for count in roots) / agents)
        most = max(most, *roots)
    return Share(trees, below, sum(shares) / draws, min(shares), most)


def _closest(agents: Sequence[int], key: bytes) -> int:
    return min(agents, key=int.from_bytes(key).__xor__)
