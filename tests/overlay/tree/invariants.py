"""What holds of a tree machine at any moment."""

from __future__ import annotations

from elf.overlay.tree.machine import Role, Tree


def check(tree: Tree) -> None:
    """Assert a machine's invariants. O(children)."""
    assert (tree.role is Role.MEMBER) == (tree.parent is not None)
    assert tree.search.asked is None or tree.role is Role.JOINING
    assert tree.parent is None or tree._rank(tree.parent.peer) < tree._rank(tree.me), "I7: parent not before us"
    for edge in tree.children.values():
        assert tree._rank(tree.me) < tree._rank(edge.peer), "I7: child not after us"
    assert len(tree.children) <= tree._settings.fan_in_max, "I8: more children than allowed"
