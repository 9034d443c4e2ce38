"""Keeps an agent's archive small while it grows: merges quiet hours, removes old ones; in a thread of its own.

What is merged and what is removed is decided in `elf.agents.archive.merge` and `elf.agents.archive.retention`; this
is the clock around them. A disk that refuses stops nothing: all is tried again at the next turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from elf.agents.archive import retention
from elf.agents.archive.inventory import Held, list_held
from elf.agents.archive.layout import source_folder
from elf.agents.archive.merge import Merging, tidy
from elf.agents.host.disk_damage import Damages

log = logging.getLogger(__name__)
#: Pause between two turns: by how much an archive may be over its bounds meanwhile.
TURN_S = 60.0


class Keeper:
    """Looks after all of one agent's files in an archive's folder.

    Args:
        folder: the archive's folder.
        agent: the agent's name or address, as its `Archive`s have it.
        sources: those whose `Archive` has recovered; the files of others are removed in time, and not merged.
        retain_ms: how long after it was written a file is kept; None: as long as there is room.
        bytes_max: what all its files may take on disk; None: no bound.
        now_ms: wall clock.
        damages: told of damaged files.
    """

    def __init__(
        self,
        folder: Path,
        agent: str,
        sources: Iterable[str],
        retain_ms: int | None,
        bytes_max: int | None,
        now_ms: Callable[[], int],
        damages: Damages,
    ) -> None:
        self._folder = folder
        self._agent = agent
        self._roots = {source_folder(folder, source) for source in sources}
        #: May be set.
        self.retain_ms = retain_ms
        self.bytes_max = bytes_max
        self._now_ms = now_ms
        self._damages = damages
        self._merging = Merging(agent, self._note_damaged)
        self._known_damaged: set[Path] = set()
        self._stopped = False
        self._tidied: set[Path] = set()
        #: As of the last turn: bytes on disk; and since the start: bytes removed.
        self.bytes = 0
        self.removed_bytes = 0

    @property
    def merged(self) -> int:
        """Small files merged since the start."""
        return self._merging.merged

    def watch(self, source: str) -> None:
        """Look after another source, whose `Archive` has recovered."""
        self._roots.add(source_folder(self._folder, source))

    async def run(self) -> None:
        """Take a turn now and then, until cancelled; a turn that is under way then ends at its next file."""
        try:
            while True:
                await asyncio.to_thread(self._turn)
                await asyncio.sleep(TURN_S)
        finally:
            self._stopped = True

    def _turn(self) -> None:
        try:
            self.turn()
        except OSError as error:
            log.error("the archive cannot be tidied now, will try again: %s", error)

    def turn(self) -> None:
        """Remove what has to go, then merge; once.

        Raises:
            OSError: the disk refused; nothing is lost, and another turn goes on.
        """
        for root in self._roots - self._tidied:
            tidy(root, self._agent)
            self._tidied.add(root)
        self._remove()
        self._merging.go_on(self._recovered(), self._now_ms())
        for _ in self._merging.merge_quiet(self._recovered(), self._now_ms()):
            if self._stopped:
                return
        self._remove()

    def _remove(self) -> None:
        held = list_held(self._folder, self._agent)
        retention.finish(held, self._agent)
        chosen = retention.choose(held, self._now_ms(), self.retain_ms, self.bytes_max)
        if chosen:
            retention.remove(chosen, self._agent)
        removed = sum(file.bytes for file in chosen)
        self.removed_bytes += removed
        self.bytes = sum(file.bytes for file in held) - removed

    def _recovered(self) -> list[Held]:
        return [file for file in list_held(self._folder, self._agent) if file.root in self._roots]

    def _note_damaged(self, path: Path, said: str) -> None:
        if path not in self._known_damaged:
            self._known_damaged.add(path)
            self._damages.note("archive", f"{said}; it stays as it is, `elf verify` names it")
