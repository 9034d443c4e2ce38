"""Back-pressure: who must rest while a link to a parent takes less than it is sent, and what waits where there is much.

Owns the questions a node asks about that; what a jam is, is `elf.overlay.links.channel`'s and
`elf.overlay.rollup.machine`'s. Pure. The jam travels down tree by tree, link by link: a node that cannot send to its
parent takes less of its children, whose links to it fill up in turn, down to the agents that then stop reading their
sources. DESIGN section 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized

from elf.overlay.application import Application
from elf.overlay.ids import Contact

#: With more trees than these messages are so many that those which may wait should go with others.
BUSY_TREES = 50


def is_busy(applications: Sized) -> bool:
    """Tell whether a node takes part in so many trees that patient messages should wait for others to the same peer."""
    return len(applications) > BUSY_TREES


def is_congested(application: Application | None, slow: Sequence[Contact]) -> bool:
    """Tell whether an application's runtime should rest; `slow` are the peers whose links are jammed."""
    if application is None:
        return False
    if application.rollup is not None and application.rollup.congested:
        return True
    return bool(slow) and application.tree.view().parent in slow


def held_back(applications: Iterable[Application], slow: Sequence[Contact]) -> list[Contact]:
    """Return the children of every tree in which our parent is one of the slow."""
    held: dict[Contact, None] = {}
    for application in applications if slow else ():
        view = application.tree.view()
        if view.parent in slow:
            held.update(dict.fromkeys(view.children))
    # A parent that is slow is not held back in the tree in which it is our child: each would wait for the other.
    return [contact for contact in held if contact not in slow]
