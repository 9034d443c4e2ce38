"""The (a,b)-tree over the order of keys: leaves with one merged run, inner nodes that only pass rows down.

Every node has a buffer of blocks. Inserts are deferred: a block is appended to a buffer and nothing else happens until
the buffer is full; then all of it is unpacked, merged and cut at the children's bounds at once. Paper: section 2.1;
Amur et al., "Memory-efficient groupby-aggregate using compressed buffer trees" (SoCC 2013).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from elf.cbt.blocks import BlockFormat
from elf.cbt.columns import Words
from elf.cbt.fusing import Fusing, Piece
from elf.cbt.native import Argument
from elf.cbt.pager import Block, Pager
from elf.cbt.patching import MANY, patch
from elf.cbt.rows import Reduce, Rows, merge
from elf.cbt.settings import TreeSettings

T = TypeVar("T")
#: A leaf's buffer smaller than this share of a full leaf waits, however small the leaf is.
_BUFFER_SHARE = 8
#: Any waits until it has this share of the run's rows; to merge them by a kernel is so cheap that fewer wait.
_RUN_SHARE, _RUN_SHARE_BY_KERNEL = 1, 2
#: Blocks in a leaf's buffer; many small ones cost more to merge than they hold.
_BUFFER_BLOCKS = 64


class Leaf(msgspec.Struct, eq=False):
    """A run of sorted rows with distinct keys, and what has not been merged with it."""

    run: list[Block] = msgspec.field(default_factory=list)
    buffer: list[Block] = msgspec.field(default_factory=list)

    @property
    def run_rows(self) -> int:
        """Keys in the run."""
        return rows_of(self.run)


class Inner(msgspec.Struct, eq=False):
    """Children by ascending key order.

    Attributes:
        children: at least two.
        bounds: lowest order of each child but the first.
        buffer: rows that have not been passed down.
    """

    children: list[Node]
    bounds: list[int]
    buffer: list[Block] = msgspec.field(default_factory=list)

    def siblings(self, low: int) -> Siblings:
        """The children with their lowest orders, given its own."""
        return list(zip([low, *self.bounds], self.children, strict=True))


Node = Leaf | Inner
#: Siblings that replace a node: lowest order (of the first: that of the node) and node.
Siblings = list[tuple[int, Node]]


class Nodes(msgspec.Struct, frozen=True, eq=False):
    """The operations on nodes of one tree.

    Attributes:
        width: words of its keys.
        fusing: merges its blocks by a kernel; None where rows are merged instead.
    """

    settings: TreeSettings
    format: BlockFormat
    reduce: Reduce
    pager: Pager
    width: int
    fusing: Fusing | None = None

    def add(self, node: Node, low: int, rows: Rows) -> Siblings:
        """Append sorted rows with distinct keys to a node's buffer; pushes down and splits where it is full."""
        node.buffer.append(self._block(rows))
        return self._relieved(node, low)

    def add_ranked(self, node: Node, low: int, columns: Sequence[Argument], packed: Words) -> Siblings | None:
        """Like `add` with what a kernel makes of rows in any order; None if it cannot, and nothing was changed."""
        if self.fusing is None:
            return None
        bounds = node.bounds if isinstance(node, Inner) else []
        pieces = self.fusing.ranked(columns, packed, self.width, bounds, self.settings.block_rows)
        if pieces is None:
            return None
        if isinstance(node, Inner):
            return self._spread(node, low, pieces)
        node.buffer += map(self._kept, pieces)
        return self._relieved(node, low)

    def _relieved(self, node: Node, low: int) -> Siblings:
        """Push down what is in a node's buffer, if it is full."""
        buffered = rows_of(node.buffer)
        if isinstance(node, Inner):
            if buffered < self.settings.node_rows:
                return [(low, node)]
            return self._pushed_down(node, low)
        share = _RUN_SHARE if self.fusing is None else _RUN_SHARE_BY_KERNEL
        wanted = max(self.settings.leaf_rows // _BUFFER_SHARE, node.run_rows // share)
        if buffered < wanted and len(node.buffer) < _BUFFER_BLOCKS:
            return [(low, node)]
        return self.settle(node, low)

    def _pushed_down(self, node: Inner, low: int) -> Siblings:
        """Push down what is in an inner node's buffer, which has something."""
        buffer = node.buffer
        node.buffer = []
        pieces = self._fused(buffer, node.bounds)
        if pieces is not None:
            return self._spread(node, low, pieces)
        pending = [self._load(block) for block in buffer]
        del buffer
        return self.pass_down(node, low, merge(pending, self.reduce))

    def _spread(self, node: Inner, low: int, pieces: Iterable[Piece]) -> Siblings:
        """Hand blocks to the children that they belong to."""
        for piece in pieces:
            node.children[piece.part].buffer.append(self._kept(piece))
        children: Siblings = []
        for child_low, child in node.siblings(low):
            children += self._relieved(child, child_low)
        node.children, node.bounds = _divided(children)
        return self._parents(node.siblings(low))

    def _fused(self, blocks: Sequence[Block], bounds: Sequence[int]) -> Iterator[Piece] | None:
        """Merge blocks by a kernel, cut at some bounds; None if none can."""
        if self.fusing is None:
            return None
        return self.fusing.merged((block.load() for block in blocks), self.width, bounds, self.settings.block_rows)

    def pass_down(self, node: Inner, low: int, ranges: Iterable[Rows]) -> Siblings:
        """Hand sorted rows, range by range, to the children they belong to."""
        for rows in ranges:
            children: Siblings = []
            lows = [low, *node.bounds]
            for child, child_low, part in zip(node.children, lows, rows.cut(node.bounds), strict=True):
                children += self.add(child, child_low, part) if len(part) else [(child_low, child)]
            # It may have more children than it should until all of the rows are down.
            node.children, node.bounds = _divided(children)
        return self._parents(node.siblings(low))

    def settle(self, leaf: Leaf, low: int) -> Siblings:
        """Merge a leaf's buffer into its run; a run that has grown too long is split."""
        if not leaf.buffer:
            return [(low, leaf)]
        pieces = self._fused([*leaf.run, *leaf.buffer], [])
        run: list[Block] = []
        if pieces is not None:
            leaf.run = []
            leaf.buffer = []
            run = list(map(self._kept, pieces))
        else:
            for each in self._merged(leaf.run, [self._load(block) for block in leaf.buffer]):
                run += [each] if isinstance(each, Block) else map(self._block, each.split(self.settings.block_rows))
            leaf.buffer = []
        rows = rows_of(run)
        # Three quarters full, so that the halves of a leaf that just split do not split again at once.
        parts = -(-rows * 4 // (self.settings.leaf_rows * 3)) if rows > self.settings.leaf_rows else 1
        runs = _evenly(run, parts)
        leaf.run = runs[0]
        return [(low, leaf), *((run[0].low, Leaf(run)) for run in runs[1:])]

    def walk(self, node: Node, above: list[Rows]) -> Iterator[Rows]:
        """Yield the merged rows of everything below a node, and of sorted rows from above it, in order.

        The node is not changed, so it has to be a `frozen` one if others may change it meanwhile.
        """
        parts = [*(self._load(block) for block in node.buffer), *above]
        if isinstance(node, Leaf):
            for each in self._merged(node.run, parts):
                yield self._load(each) if isinstance(each, Block) else each
            return
        pending = merge(parts, self.reduce) if parts else iter(())
        del parts, above
        shares: list[list[Rows]] = [[] for _ in node.children]
        for rows in pending:
            for share, part in zip(shares, rows.cut(node.bounds), strict=True):
                if len(part):
                    share.append(part)
        for number, child in enumerate(node.children):
            above, shares[number] = shares[number], []
            yield from self.walk(child, above)

    def _merged(self, run: Sequence[Block], parts: Sequence[Rows]) -> Iterator[Rows | Block]:
        """Merge sorted rows with a run, block by block; a block that nothing is added to comes as it is."""
        if not parts:
            yield from run
            return
        if not run:
            yield from merge(parts, self.reduce)
            return
        cuts = zip(*(part.cut([block.low for block in run[1:]]) for part in parts), strict=True)
        for block, pieces in zip(run, cuts, strict=True):
            filled = [piece for piece in pieces if len(piece)]
            if not filled:
                yield block
                continue
            rows = self._load(block)
            few = list(merge(filled, self.reduce)) if sum(map(len, filled)) * MANY <= len(rows) else []
            patched = patch(rows, few[0], self.reduce) if len(few) == 1 else None
            if patched is not None:
                yield patched
            else:
                yield from merge([rows, *(few or filled)], self.reduce)

    def _load(self, block: Block) -> Rows:
        return self.format.unpack(block.load())

    def _block(self, rows: Rows) -> Block:
        return self.pager.put(self.format.pack(rows), len(rows), int(rows.order[0]))

    def _kept(self, piece: Piece) -> Block:
        return self.pager.put(piece.data, piece.rows, piece.low)

    def settled(self, node: Node, low: int) -> Siblings:
        """Push down and merge all that is in buffers below a node."""
        if isinstance(node, Leaf):
            return self.settle(node, low)
        siblings = self._pushed_down(node, low) if node.buffer else [(low, node)]
        settled: Siblings = []
        for sibling_low, sibling in siblings:
            assert isinstance(sibling, Inner)
            children = sibling.siblings(sibling_low)
            settled += self._parents([new for each_low, each in children for new in self.settled(each, each_low)])
        return settled

    def grown(self, siblings: Siblings) -> Node:
        """The root over the siblings that replace the old one."""
        while len(siblings) > 1:
            siblings = self._parents(siblings)
        return siblings[0][1]

    def _parents(self, children: Siblings) -> Siblings:
        """Inner nodes with empty buffers over some children, as few as take them."""
        return [(share[0][0], Inner(*_divided(share))) for share in _shares(children, self.settings.fan_out)]

    def emptied(self, root: Node) -> Node:
        """A tree without rows that has the shape this one's rows asked for: leaves that held little are merged."""
        lows = [0]
        held = 0
        for low, leaf in _leaves(root, 0):
            rows = leaf.run_rows + rows_of(leaf.buffer)
            if held and held + rows > self.settings.leaf_rows // 2:
                lows.append(low)
                held = 0
            held += rows
        return self.grown([(low, Leaf()) for low in lows])


def rows_of(blocks: Iterable[Block]) -> int:
    """Rows in all of them."""
    return sum(block.rows for block in blocks)


def frozen(node: Node) -> Node:
    """Copy the nodes, not the blocks: what the tree is at this moment. O(blocks)."""
    if isinstance(node, Leaf):
        return Leaf(list(node.run), list(node.buffer))
    return Inner([frozen(child) for child in node.children], list(node.bounds), list(node.buffer))


def leaves(root: Node) -> Iterator[Leaf]:
    """Every leaf, in order."""
    return (leaf for _, leaf in _leaves(root, 0))


def _leaves(node: Node, low: int) -> Iterator[tuple[int, Leaf]]:
    if isinstance(node, Leaf):
        yield low, node
    else:
        for child, child_low in zip(node.children, [low, *node.bounds], strict=True):
            yield from _leaves(child, child_low)


def _divided(children: Siblings) -> tuple[list[Node], list[int]]:
    """Children, and the lowest order of each but the first."""
    return [child for _, child in children], [low for low, _ in children[1:]]


def _evenly(run: list[Block], pieces: int) -> list[list[Block]]:
    """Divide a run into about so many runs of as many rows each; none but one of a single block has twice as many.

    By rows, not by blocks: keys of one order are in one block, however many they are.
    """
    share = rows_of(run) / pieces
    runs: dict[int, list[Block]] = {}
    before = 0
    for block in run:
        # A block belongs where its middle is.
        runs.setdefault(int((before + block.rows / 2) / share), []).append(block)
        before += block.rows
    return list(runs.values())


def _shares(children: list[T], most: int) -> list[list[T]]:
    """Divide children evenly among as few parents as take them."""
    parents = -(-len(children) // most)
    places = [len(children) * number // parents for number in range(parents + 1)]
    return [children[start:end] for start, end in itertools.pairwise(places)]
