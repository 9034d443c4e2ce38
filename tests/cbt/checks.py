"""A tree's invariants and its figures."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from elf.cbt import columns
from elf.cbt.nodes import Inner, Node, Nodes, leaves, rows_of
from elf.cbt.pager import Block, Pager
from elf.cbt.root import RootBuffer
from elf.cbt.tree import BufferTree
from elf.cbt.waiting import Waiting
from elf.cbt.words import ORDER_MASK


class TreeStatistics(NamedTuple):
    """Figures of one tree.

    Attributes:
        depth: levels of nodes, the largest of all key widths.
        nodes: inner nodes.
        leaves: leaves.
        pending_rows: uncompressed rows in root buffers, and on their way there.
        buffered_rows: compressed rows that have not been merged into a leaf's run.
        run_rows: rows in leaves' runs; with both others at most this many keys.
        blocks: compressed blocks.
        packed_bytes: their bytes, wherever they are.
        memory_bytes: memory held for blocks and pending rows.
        spilled_bytes: bytes of blocks on disk.
    """

    depth: int
    nodes: int
    leaves: int
    pending_rows: int
    buffered_rows: int
    run_rows: int
    blocks: int
    packed_bytes: int
    memory_bytes: int
    spilled_bytes: int


def statistics_of(tree: BufferTree) -> TreeStatistics:
    """Return counts and sizes. O(blocks)."""
    with tree._lock:
        pager, roots = tree._pager, [width.root for width in tree._widths.values()]
        buffers = [*(width.buffer for width in tree._widths.values()), tree._waiting]
        return _counted(roots, buffers, pager)


def _counted(roots: Sequence[Node], buffers: Sequence[RootBuffer | Waiting], pager: Pager) -> TreeStatistics:
    inner = [node for root in roots for node in _inner(root)]
    ends = [leaf for root in roots for leaf in leaves(root)]
    pending = sum(map(len, buffers))
    run = [block for leaf in ends for block in leaf.run]
    nodes: list[Node] = [*inner, *ends]
    buffered = [block for node in nodes for block in node.buffer]
    return TreeStatistics(
        depth=max((_depth(root) for root in roots), default=min(1, pending)),
        nodes=len(inner),
        leaves=len(ends),
        pending_rows=pending,
        buffered_rows=rows_of(buffered),
        run_rows=rows_of(run),
        blocks=len(run) + len(buffered),
        packed_bytes=sum(block.size for block in [*run, *buffered]),
        memory_bytes=pager.memory_bytes + sum(buffer.memory_bytes for buffer in buffers),
        spilled_bytes=pager.spilled_bytes,
    )


def check(tree: BufferTree) -> None:
    """Check every invariant of a tree: what makes its nodes (a,b)-trees over the order of keys. O(n).

    Raises:
        AssertionError: one does not hold, which is a defect.
        SpillError: a block could not be read back.
    """
    with tree._sound():
        tree._admit()
        for width in tree._widths.values():
            _check(width.root, width.nodes, 0, int(ORDER_MASK) + 1, is_root=True)


def _check(node: Node, nodes: Nodes, low: int, high: int, *, is_root: bool = False) -> None:
    settings = nodes.settings
    for block in node.buffer:
        _check_block(block, nodes, low, high)
    if isinstance(node, Inner):
        least = 2 if is_root else (settings.fan_out + 1) // 2
        assert least <= len(node.children) <= settings.fan_out, f"{len(node.children)} children"
        assert rows_of(node.buffer) < settings.node_rows, "an inner node's buffer is over-full"
        bounds = [low, *node.bounds, high]
        assert all(left < right for left, right in itertools.pairwise(bounds)), "bounds do not ascend"
        assert len({_depth(child) for child in node.children}) == 1, "leaves lie at different depths"
        for child, start, end in zip(node.children, bounds, bounds[1:], strict=False):
            _check(child, nodes, start, end)
        return
    lows = [max(low, node.run[0].low) if node.run else low, *(block.low for block in node.run[1:]), high]
    for block, start, end in zip(node.run, lows, lows[1:], strict=False):
        _check_block(block, nodes, start, end)
    # Keys of one and the same order cannot be parted, so a leaf may be larger only if that is what it holds.
    assert len(node.run) <= 1 or node.run_rows <= 2 * settings.leaf_rows, f"a leaf has {node.run_rows} rows"


def _check_block(block: Block, nodes: Nodes, low: int, high: int) -> None:
    """Sorted, with distinct keys, within the bounds of its node, and what is known of it without unpacking it."""
    rows = nodes.format.unpack(block.load())
    assert len(rows) == block.rows > 0, f"{len(rows)} rows, not {block.rows}"
    order = rows.order
    assert int(order[0]) == block.low, "a block does not begin where it should"
    assert low <= int(order[0]), "keys lie before their node"
    assert int(order[-1]) < high, "keys lie behind their node"
    assert bool((order[1:] >= order[:-1]).all()), "a block is not sorted"
    same = np.flatnonzero(order[1:] == order[:-1])
    assert not columns.equal(rows.words, same, same + 1).any(), "a block has a key twice"


def _inner(node: Node) -> list[Inner]:
    if not isinstance(node, Inner):
        return []
    return [node, *(inner for child in node.children for inner in _inner(child))]


def _depth(node: Node) -> int:
    return 1 + _depth(node.children[0]) if isinstance(node, Inner) else 1
