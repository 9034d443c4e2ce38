"""What the parts of an agent stand on: its clock, its randomness, and work that goes on beside."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from elf.agents.host.clock import Clock


@dataclass(frozen=True)
class Means:
    """One agent's means; in a simulated world they are that world's."""

    now_ms: Clock
    #: Source of everything random.
    rng: random.Random
    #: Begins work that ends with the agent.
    spawn: Callable[[Coroutine[Any, Any, None]], None]
