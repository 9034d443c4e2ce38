"""An agent that has next to nothing to read takes no more memory than it needs.

While it reads it keeps what chunks have freed for the next ones (`sources.allocation`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from elf.agents.host.allocation import give_back

#: How often it is looked, and up to how many lines read meanwhile an agent is at rest.
LOOK_S, LINES_MAX = 30.0, 1_000


async def give_back_at_rest(lines_read: Callable[[], int], look_s: float = LOOK_S) -> None:
    """Give free memory back whenever few lines were read for `look_s`, until cancelled."""
    before = lines_read()
    while True:
        await asyncio.sleep(look_s)
        now = lines_read()
        if now - before <= LINES_MAX:
            await asyncio.to_thread(give_back)
        before = now
