"""A machine of the simulated tree whose root moves: it goes by what it believes, and may be the last one to hear."""

from __future__ import annotations

from elf.overlay.rollup.ledger import Ledger
from tests.overlay.harness import Machine, World


class MovingMachine(Machine):
    """One agent; whose child it is, or whether it leads, is what it has heard last."""

    def __init__(self, world: World, index: int) -> None:
        super().__init__(world, index)
        #: Whom it takes for the root, and as a root in which term.
        self.believes, self.term = world.root, 0

    def enter(self) -> None:
        """Enter the tree, or hear of another root; a root that was deposed leads nobody, and waits to hear."""
        raise NotImplementedError

    @property
    def ledger(self) -> Ledger | None:
        """The ledger, while it is a root or takes itself for one."""
        rollup = self.app.rollup if self.app is not None else None
        return rollup.ledger if rollup is not None else None

    def follow(self, root: int) -> None:
        """Hear who is the root."""
        if root != self.believes:
            self.believes = root
            self.enter()
