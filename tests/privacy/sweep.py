"""One run: agents whose sources have lines of some formats tell no address, neither whole nor hashed by a known key."""

from __future__ import annotations

import asyncio
import hashlib
import random
from unittest import mock

from tests.agents.sources.format_files import formats
from tests.privacy.given import given
from tests.privacy.told import leaks, told
from tests.virtual.loop import VirtualLoop
from tests.world.files import folder_of, numbered_files

#: When the lines' events are, nearly.
_NOW_MS = 1_795_683_600_000 + 60_000
#: Sources of an agent.
SOURCES = 7


def shares() -> list[list[str]]:
    """Return the names of all formats, as many together as one agent has."""
    names = list(formats())
    return [names[at : at + SOURCES] for at in range(0, len(names), SOURCES)]


def run(seed: int, names: list[str], lines: int) -> tuple[dict[str, str], list[str]]:
    """Run an agent in virtual time; return all that it told, and where it told a full address.

    Args:
        seed: of everything that is drawn.
        names: the formats of its sources.
        lines: of each.
    """
    rng = random.Random(seed)
    ip = rng.choice(("prefix", "hash"))
    sources = {name.replace("-", "_"): given(name, lines, rng) for name in names}
    folder_name = hashlib.blake2b(f"{seed} {names}".encode(), digest_size=8).hexdigest()
    with (
        mock.patch("tests.virtual.loop.EPOCH_MS", _NOW_MS),
        folder_of(folder_name) as folder,
        numbered_files(),
        asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner,
    ):
        found = runner.run(told(folder, sources, ip))
    return found, leaks(found, sources.values())
