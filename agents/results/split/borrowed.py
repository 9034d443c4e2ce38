"""The panes of a copy as a provisional master sees them: those on disk, and in memory what it adds; nothing is written.

What a provisional master makes of the snapshots of its side is thrown away with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from elf.agents.store.checksums import DamagedError
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, Panes, Place
from elf.agents.store.shared_transactions import Write


class BorrowedPanes(Panes):
    """One job's blocks: changed ones in memory, all others from the database.

    Args:
        database: where the copy's panes are.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        #: Of the blocks in memory.
        self.size_bytes = 0
        #: None stands for a block that is gone.
        self._changed: dict[Place, bytes | None] = {}

    def commit(self, app: bytes, state: bytes, changed: Mapping[Place, bytes], gone: Iterable[Place]) -> None:
        """Keep what a commit changes in memory; the state is the provisional master's own to remember."""
        self.replace(app, changed, gone)

    def committing(self, app: bytes, state: bytes, changed: Mapping[Place, bytes], gone: Sequence[Place]) -> Write:
        """Return what keeps a commit as `commit` does; nothing is written."""
        return lambda sql: self.commit(app, state, changed, gone)

    def replace(self, app: bytes, changed: Mapping[Place, bytes], gone: Iterable[Place]) -> None:
        """Keep blocks in memory in the place of others."""
        for place, block in ({**dict.fromkeys(gone), **changed}).items():
            self.size_bytes += len(block or b"") - len(self._changed.get(place) or b"")
            self._changed[place] = block

    def intervals(self, app: bytes, kind: Kind) -> list[int]:
        """Return the intervals of the blocks of a kind, ascending."""
        found = set(super().intervals(app, kind))
        return sorted(found.difference(self._of(kind, gone=True)).union(self._of(kind, gone=False)))

    def blocks(self, app: bytes, kind: Kind) -> dict[int, bytes]:
        """Return the blocks of a kind by interval, ascending; damaged ones are left out."""
        found = super().blocks(app, kind)
        for (of, interval), block in self._changed.items():
            if of == kind:
                found.pop(interval, None)
                if block is not None:
                    found[interval] = block
        return dict(sorted(found.items()))

    def block(self, app: bytes, kind: Kind, interval: int) -> bytes:
        """Return one block; raises DamagedError as `Panes.block` does."""
        if (kind, interval) not in self._changed:
            return super().block(app, kind, interval)
        block = self._changed[kind, interval]
        if block is None:
            raise DamagedError(f"the {kind.name.lower()} of interval {interval} is gone")
        return block

    def _of(self, kind: Kind, *, gone: bool) -> list[int]:
        return [interval for (of, interval), block in self._changed.items() if of == kind and (block is None) == gone]
