"""The buffer tree against a dict: inserts, flushes, empties, differences, spills and crashes of the spill folder.

The tree is so small (leaves of 8 rows, buffers of 4, 3 or 4 children) that a few dozen rows split and merge its nodes.
After damage to the folder or a full disk an operation may raise a `SpillError`. It may never serve anything else than
what was inserted: an insert that raised may have happened or not, and a tree that lost more than that says so for ever,
or until it is emptied.
"""

import contextlib
import dataclasses
import datetime
import errno
import itertools
import math
import os
import pathlib
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import elf.cbt.rows
import elf.cbt.tree
from elf.cbt.aggregates import Merge, Plain
from elf.cbt.schema import PaoSchema
from elf.cbt.settings import TreeSettings
from elf.cbt.spill import SpillError
from elf.cbt.tree import BufferTree
from elf.cbt.words import KeyLayout
from tests.cbt.checks import check, statistics_of
from tests.cbt.kernels import without_kernels

Key = tuple[Any, ...]
States = tuple[Any, ...]
Content = dict[Key, States]


def later(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    """The states of the later row; of equally late ones the larger value."""
    take = (right[0] > left[0]) | ((right[0] == left[0]) & (right[1] > left[1]))
    return np.where(take, right[0], left[0]), np.where(take, right[1], left[1])


def longest(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    """The larger of two byte strings."""
    return (np.where((left[0] > right[0]).astype(bool), left[0], right[0]),)


@dataclasses.dataclass(frozen=True)
class Everything(Plain):
    """Every kind of state column and merge."""

    dtype: pl.DataType = dataclasses.field(default_factory=pl.Int64)
    kind: ClassVar[str] = "everything"
    columns: ClassVar[dict[str, tuple[pl.DataType, Any]]] = {
        "n": (pl.Int64(), "sum"),
        "total": (pl.Float64(), "sum"),
        "low": (pl.Int64(), "min"),
        "narrow": (pl.Int32(), "max"),
        "word": (pl.String(), "max"),
        "letter": (pl.String(), "min"),
        "flag": (pl.Boolean(), "max"),
        "ratio": (pl.Float64(), "max"),
        "least": (pl.Float64(), "min"),
        "day": (pl.Date(), "max"),
        "at": (pl.Int64(), later),
        "said": (pl.String(), later),
        "raw": (pl.Binary(), longest),
    }

    @property
    def output(self) -> pl.DataType:
        return self.dtype

    def states(self, name: str) -> dict[str, pl.DataType]:
        return {f"{name}_{column}": dtype for column, (dtype, _) in self.columns.items()}

    def identity(self, name: str) -> dict[str, object]:
        raise AssertionError("no row is made up")

    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        raise AssertionError("rows come as states")

    def merges(self, name: str) -> list[Merge]:
        words = [
            Merge((f"{name}_{c}",), cast(Any, how)) for c, (_, how) in self.columns.items() if isinstance(how, str)
        ]
        pair = tuple(f"{name}_{c}" for c, (_, how) in self.columns.items() if how is later)
        raw = tuple(f"{name}_{c}" for c, (_, how) in self.columns.items() if how is longest)
        return [*words, *([Merge(pair, later)] if pair else []), *([Merge(raw, longest)] if raw else [])]

    def finish(self, name: str) -> pl.Expr:
        raise AssertionError("the tree does not finish")

    @classmethod
    def values(cls, seed: int) -> States:
        """States of a row, made from one small number."""
        odd = seed % 7
        return (
            seed,
            float(seed),
            [seed, -(2**63), 2**63 - 1, 0][seed % 4],
            [seed, -(2**31), 2**31 - 1][seed % 3],
            ["", "\0", "é", "日本", "w" * abs(seed) * 40, "a", "b"][odd],
            ["zz", "\0\0", "", "ü", "m" * abs(seed) * 9, "z", "y"][odd],
            seed % 2 == 0,
            [math.nan, math.inf, -math.inf, 0.5, -3.25, float(seed), 1e300][odd],
            [1.0, math.nan, math.nan, math.inf, float(seed), -1e300, 2.0][odd],
            datetime.date(1970, 1, 1) + datetime.timedelta(days=seed),
            seed // 3,
            ["", "x", "日本", "\0"][seed % 4],
            [b"", b"\0", b"\xff" * 20, bytes([abs(seed) % 256])][seed % 4],
        )

    @classmethod
    def merge(cls, left: States, right: States) -> States:
        merged = []
        for (_, how), one, two in zip(cls.columns.values(), left, right, strict=True):
            if how == "sum":
                merged.append(one + two)
            elif how in ("min", "max"):
                nans = [value for value in (one, two) if value != value]
                numbers = [value for value in (one, two) if value == value]
                pick = min if how == "min" else max
                merged.append(pick(numbers) if numbers and (how == "min" or not nans) else nans[0])
            elif how is longest:
                merged.append(max(one, two))
        if "at" in cls.columns:
            place = list(cls.columns).index("at")
            merged[place:place] = max(left[place : place + 2], right[place : place + 2])
        return tuple(merged)


class Counting(Everything):
    """Sums only, so that there is an inverse."""

    kind: ClassVar[str] = "counting"
    columns: ClassVar[dict[str, tuple[pl.DataType, Any]]] = {"n": (pl.Int64(), "sum"), "total": (pl.Float64(), "sum")}

    @classmethod
    def values(cls, seed: int) -> States:
        return seed, float(seed)


class Distinct(Everything):
    """No states at all."""

    columns: ClassVar[dict[str, tuple[pl.DataType, Any]]] = {}

    @classmethod
    def values(cls, seed: int) -> States:
        return ()


LONG = ["x" * size + "é" for size in (1, 6, 7, 8, 14, 15, 16, 23, 100, 511, 512, 513, 3000)]
POOLS: dict[type[pl.DataType], list[Any]] = {
    pl.String: [None, "", "\0", "\0\0", "a", "a\0", "\0a", "é", "日本", "a" * 8, "a" * 12, "a" * 13, *LONG],
    pl.Int64: [None, 0, 1, -1, 2**63 - 1, -(2**63), 2**32],
    pl.Int32: [None, 0, 2**31 - 1, -(2**31)],
    pl.Boolean: [None, True, False],
    pl.Float64: [None, 0.0, -0.0, math.nan, math.inf, -math.inf, 1e-310],
    pl.Date: [None, datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)],
    pl.Datetime: [None, datetime.datetime(1970, 1, 1), datetime.datetime(1677, 9, 22), datetime.datetime(2200, 1, 1)],
}
MIXED = (pl.String(), pl.Int32(), pl.Boolean(), pl.String(), pl.Date(), pl.Datetime("us"), pl.Float64())
SCHEMAS: list[tuple[tuple[pl.DataType, ...], type[Everything]]] = [
    ((), Everything),
    ((pl.String(),), Everything),
    ((pl.String(),), Counting),
    ((pl.Int64(),), Counting),
    ((pl.Int64(), pl.String()), Everything),
    ((pl.String(), pl.String()), Distinct),
    (MIXED, Everything),
    (MIXED, Counting),
]


def component(dtype: pl.DataType, index: int) -> Any:
    """Part of a key: the small numbers give the odd values, the others as many ordinary ones as there are numbers."""
    pool = POOLS[dtype.base_type()]
    if index < len(pool):
        return pool[index]
    if isinstance(dtype, pl.String):
        return f"{index}" + "p-" * (index % 9)
    if isinstance(dtype, pl.Int64):
        return index * 2_654_435_761 - 2**40
    return pool[index % len(pool)]


def normal(value: Any) -> Any:
    """A value that equals itself and has one sign of zero."""
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    return value


def make_schema(types: tuple[pl.DataType, ...], kind: type[Everything]) -> PaoSchema:
    keys = tuple((f"k{number}", dtype) for number, dtype in enumerate(types))
    return PaoSchema(keys=keys, aggregates=(("a0", kind()),) if kind.columns else ())


class Table:
    """What rows of a schema look like, and the dict that the tree has to equal."""

    def __init__(self, types: tuple[pl.DataType, ...], kind: type[Everything]) -> None:
        self.types, self.kind = types, kind
        self.schema = make_schema(types, kind)
        self.width = 1 + len(types)

    def row(self, interval: int, index: int, seed: int) -> tuple[Key, States]:
        strides = (1, 5, 3, 7, 11, 13, 2)
        places = [index if number == 0 else index * strides[number] % 29 for number in range(len(self.types))]
        parts = [component(dtype, place) for dtype, place in zip(self.types, places, strict=True)]
        return (interval, *parts), self.kind.values(seed)

    def frame(self, rows: list[tuple[Key, States]]) -> pl.DataFrame:
        columns = list(zip(*((*key, *states) for key, states in rows), strict=True)) or [()] * len(self.schema.columns)
        pairs = zip(self.schema.columns.items(), columns, strict=True)
        return pl.DataFrame([pl.Series(name, list(values), dtype=dtype) for (name, dtype), values in pairs])

    def add(self, content: Content, rows: list[tuple[Key, States]]) -> Content:
        merged = dict(content)
        for key, states in rows:
            name = tuple(map(normal, key))
            merged[name] = self.kind.merge(merged[name], states) if name in merged else states
        return merged

    def rows(self, content: Content) -> list[tuple[Key, States]]:
        return [(tuple(math.nan if part == "nan" else part for part in key), s) for key, s in content.items()]

    def content(self, frames: list[pl.DataFrame]) -> Content:
        content: Content = {}
        for frame in frames:
            assert dict(frame.schema) == self.schema.columns
            for row in frame.iter_rows():
                key = tuple(map(normal, row[: self.width]))
                assert key not in content, f"{key} twice"
                content[key] = tuple(map(normal, row[self.width :]))
        return content


def normalised(content: Content) -> Content:
    return {key: tuple(map(normal, states)) for key, states in content.items()}


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    def pwritev(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwritev", pwritev)
        yield


def collide(patch: pytest.MonkeyPatch, bits: int) -> None:
    """Let keys have only so many bits of order, so that unequal ones often share a place."""
    real, mask = KeyLayout.order, np.uint64(2**64 - 2 ** (64 - bits))
    patch.setattr(KeyLayout, "order", lambda layout, words: real(layout, words) & mask)


@dataclasses.dataclass
class Flush:
    """A flush under way."""

    frames: Iterator[pl.DataFrame]
    possible: list[Content]
    got: list[pl.DataFrame] = dataclasses.field(default_factory=list)
    may_fail: bool = False


row_numbers = st.tuples(st.integers(0, 2), st.integers(0, 30) | st.integers(0, 400), st.integers(-60, 60))
tree_settings = st.fixed_dictionaries(
    {
        "fan_out": st.integers(3, 4),
        "root_rows": st.sampled_from([4, 1, 16]),
        "node_rows": st.sampled_from([4, 8]),
        "leaf_rows": st.sampled_from([8, 2]),
        "block_rows": st.sampled_from([8, 3, 1]),
        "codec": st.sampled_from(["lz4", "lz4hc", "none"]),
        "memory_bytes_max": st.sampled_from([None, 1, 600]),
    }
)


class Tree(RuleBasedStateMachine):
    """One tree, a dict of what it has to hold, and an older tree to take differences with."""

    @initialize(
        schema=st.sampled_from(SCHEMAS),
        sizes=tree_settings,
        order_bits=st.sampled_from([40, 4, 1]),
        step_rows=st.sampled_from([16_384, 5, 1]),
        kernels=st.booleans(),
    )
    def plant(self, schema: Any, sizes: dict[str, Any], order_bits: int, step_rows: int, kernels: bool) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(elf.cbt.rows, "STEP_ROWS", step_rows)
        self.patch.setattr(elf.cbt.tree, "FLUSH_ROWS", 3 * step_rows)
        # Kernels make the places of keys themselves, so they would not know of such collisions.
        if order_bits < 40 or not kernels:
            without_kernels(self.patch)
        if order_bits < 40:
            collide(self.patch, order_bits)
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name) / "spill"
        self.table = Table(*schema)
        self.sizes = TreeSettings(**sizes, spill_folder=self.folder)
        self.tree = BufferTree(self.table.schema, self.sizes)
        #: What the tree may hold: more than one thing only after an insert that failed.
        self.possible: list[Content] = [{}]
        self.may_fail = False
        self.flushes: list[Flush] = []
        self.older: tuple[BufferTree, Content] | None = None

    @contextlib.contextmanager
    def maybe_failing(self, may_fail: bool | None = None) -> Iterator[None]:
        try:
            yield
        except SpillError:
            if not (self.may_fail if may_fail is None else may_fail):
                raise

    def insert_rows(self, rows: list[tuple[Key, States]]) -> None:
        after = [self.table.add(content, rows) for content in self.possible]
        try:
            self.tree.insert(self.table.frame(rows))
        except SpillError:
            if not self.may_fail:
                raise
            self.possible = [*self.possible, *after][:64]
        else:
            self.possible = after

    @rule(numbers=st.lists(row_numbers, max_size=10))
    def insert(self, numbers: list[tuple[int, int, int]]) -> None:
        self.insert_rows([self.table.row(*each) for each in numbers])

    @rule(start=st.integers(0, 300), count=st.integers(20, 80), step=st.sampled_from([1, 7]), seed=st.integers(-9, 9))
    def insert_many(self, start: int, count: int, step: int, seed: int) -> None:
        self.insert_rows([self.table.row(0, (start + step * n) % 400, seed) for n in range(count)])

    @rule(numbers=st.lists(row_numbers, min_size=1, max_size=30))
    def insert_on_a_full_disk(self, numbers: list[tuple[int, int, int]]) -> None:
        rows = [self.table.row(*each) for each in numbers]
        before, self.may_fail = self.may_fail, True
        with full_disk():
            self.insert_rows(rows)
        if len(self.possible) == 1:
            self.may_fail = before

    def serve(self, frames: Iterator[pl.DataFrame] | list[pl.DataFrame]) -> None:
        content = self.table.content(list(frames))
        fitting = [possible for possible in self.possible if normalised(possible) == content]
        if len(self.possible) == 1:
            assert content == normalised(self.possible[0])
        assert fitting, "the tree holds neither what it was given before nor after an insert that failed"
        self.possible = fitting[:1]

    @rule()
    def flush(self) -> None:
        with self.maybe_failing():
            self.serve(list(self.tree.flush()))

    @rule()
    def compact(self) -> None:
        with self.maybe_failing():
            self.tree.compact()
            assert statistics_of(self.tree).buffered_rows == statistics_of(self.tree).pending_rows == 0

    @rule()
    def snapshot(self) -> None:
        with self.maybe_failing():
            self.serve([self.tree.snapshot()])

    @precondition(lambda self: len(self.flushes) < 3)
    @rule()
    def flush_begin(self) -> None:
        with self.maybe_failing():
            self.flushes.append(Flush(iter(self.tree.flush()), self.possible, may_fail=self.may_fail))

    @precondition(lambda self: bool(self.flushes))
    @rule(choice=st.data(), frames=st.sampled_from([1, 3, 10_000]))
    def flush_continue(self, choice: st.DataObject, frames: int) -> None:
        flush = choice.draw(st.sampled_from(self.flushes))
        try:
            flush.got += itertools.islice(flush.frames, frames)
        except SpillError:
            assert flush.may_fail
            self.flushes.remove(flush)
            return
        if frames == 10_000:
            self.flushes.remove(flush)
            content = self.table.content(flush.got)
            if len(flush.possible) == 1:
                assert content == normalised(flush.possible[0])
            assert content in [normalised(possible) for possible in flush.possible]

    @precondition(lambda self: bool(self.flushes))
    @rule()
    def flush_abandon(self) -> None:
        self.flushes.pop()

    @rule()
    def empty(self) -> None:
        self.tree.empty()
        self.possible, self.may_fail = [{}], False

    @precondition(lambda self: self.table.kind is Counting and len(self.possible) == 1)
    @rule()
    def remember(self) -> None:
        if self.older is not None:
            self.older[0].close()
        (content,) = self.possible
        tree = BufferTree(self.table.schema, self.sizes)
        rows = self.table.rows(content)
        for start in range(0, len(rows), 50):
            tree.insert(self.table.frame(rows[start : start + 50]))
        self.older = tree, content

    @precondition(lambda self: self.older is not None)
    @rule()
    def difference(self) -> None:
        assert self.older is not None
        tree, content = self.older
        with self.maybe_failing():
            got = self.table.content(list(self.tree.difference(tree)))
            inverse = [(key, tuple(-state for state in states)) for key, states in self.table.rows(content)]
            wanted = [normalised(self.table.add(possible, inverse)) for possible in self.possible]
            changed = [{key: states for key, states in each.items() if any(states)} for each in (got, *wanted)]
            assert changed[0] in changed[1:], "the difference is not what was inserted in between"
            assert all(set(got) <= set(each) for each in wanted)

    def spilled(self) -> list[pathlib.Path]:
        return sorted(path for path in self.folder.glob("*.spill") if path.stat().st_size)

    def damaged(self) -> None:
        self.may_fail = True
        for flush in self.flushes:
            flush.may_fail = True
        # The older tree shares the folder: let it go rather than tell whose file it was.
        if self.older is not None:
            self.older[0].close()
            self.older = None

    @precondition(lambda self: bool(self.spilled()))
    @rule(choice=st.data(), bits=st.integers(1, 255), bytes_=st.integers(1, 40))
    def flip(self, choice: st.DataObject, bits: int, bytes_: int) -> None:
        self.damaged()
        for path in self.spilled():
            data = bytearray(path.read_bytes())
            for _ in range(bytes_):
                data[choice.draw(st.integers(0, len(data) - 1))] ^= bits
            path.write_bytes(data)

    @precondition(lambda self: bool(self.spilled()))
    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        self.damaged()
        for path in self.spilled():
            os.truncate(path, int(share * path.stat().st_size))

    @precondition(lambda self: bool(self.spilled()))
    @rule(folder=st.booleans())
    def delete(self, folder: bool) -> None:
        self.damaged()
        for path in self.spilled() if not folder else list(self.folder.iterdir()):
            path.unlink(missing_ok=True)
        if folder:
            self.folder.rmdir()

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "tree"):
            with self.maybe_failing():
                check(self.tree)
            assert self.tree.memory_bytes >= 0
            statistics_of(self.tree)

    def teardown(self) -> None:
        if not hasattr(self, "tree"):
            return
        try:
            with self.maybe_failing():
                self.serve(list(self.tree.flush()))
            self.flushes.clear()
            if self.older is not None:
                self.older[0].close()
            self.tree.close()
            assert not self.spilled()
        finally:
            self.patch.undo()
            self.scratch.cleanup()


TestTree = Tree.TestCase
TestTree.settings = settings(max_examples=40, stateful_step_count=30)


TINY = TreeSettings(fan_out=3, root_rows=4, node_rows=4, leaf_rows=8, block_rows=4)


def test_flushes_in_threads_see_a_point_in_time() -> None:
    table = Table((pl.Int64(),), Counting)
    tree = BufferTree(table.schema, TINY)
    begun = done = 0
    wrong: list[object] = []
    stop = threading.Event()

    def flush() -> None:
        try:
            while not stop.is_set():
                least = done
                content = table.content(list(tree.flush()))
                most = begun
                # Insert i adds 1 to keys 0 to i modulo 50, so the content tells how many inserts it has seen.
                seen = content.get((0, 0), (0,))[0]
                wanted = {(0, key): (seen - key, float(seen - key)) for key in range(50) if key < seen}
                if not (least <= seen <= most and content == wanted):
                    wrong.append((least, seen, most, content))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=flush) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(150):
        begun = i + 1
        tree.insert(table.frame([((0, key), (1, 1.0)) for key in range(min(i + 1, 50))]))
        done = i + 1
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    check(tree)
    tree.close()


def test_a_small_machine_reaches_depth_and_disk(tmp_path: pathlib.Path) -> None:
    table = Table((pl.String(),), Counting)
    sizes = msgspec.structs.replace(TINY, memory_bytes_max=500, spill_folder=tmp_path)
    tree = BufferTree(table.schema, sizes)
    content: Content = {}
    for start in range(0, 2000, 50):
        rows = [table.row(0, index, 1) for index in range(start, start + 50)]
        tree.insert(table.frame(rows))
        content = table.add(content, rows)
        check(tree)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.spill")) > 1000
    assert table.content(list(tree.flush())) == normalised(content)
    tree.close()
    assert not list(tmp_path.glob("*.spill"))


def test_rows_that_are_refused_leave_no_part_of_their_frame() -> None:
    table = Table((pl.Int64(),), Counting)
    tree = BufferTree(table.schema, TINY)
    tree.insert(table.frame([((0, 1), (1, 1.0))]))
    frame = table.frame([((0, key), (1, 1.0)) for key in range(10)])
    with pytest.raises(ValueError, match="nulls"):
        tree.insert(frame.with_columns(a0_n=pl.when(pl.col("k0") < 9).then(pl.col("a0_n"))))
    assert table.content(list(tree.flush())) == {(0, 1): (1, 1.0)}


@pytest.mark.parametrize("error", [RuntimeError, ValueError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("call", [1, 9, 17])
def test_a_merge_that_raises_is_never_a_smaller_result(
    call: int, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table((pl.Int64(),), Everything)
    calls = 0

    def combine(left: States, right: States) -> States:
        nonlocal calls
        calls += 1
        if calls == call:
            raise error("told to")
        return later(left, right)

    def merges(self: Everything, name: str) -> list[Merge]:
        return [each._replace(how=combine) if each.how is later else each for each in ordinary(self, name)]

    ordinary = Everything.merges
    monkeypatch.setattr(Everything, "merges", merges)
    tree = BufferTree(table.schema, TINY)
    possible: list[Content] = [{}]
    for start in range(0, 60, 5):
        rows = [table.row(0, index % 40, 1) for index in range(start, start + 12)]
        after = [table.add(content, rows) for content in possible]
        try:
            tree.insert(table.frame(rows))
        except error:
            possible += after
        else:
            possible = after
    with contextlib.suppress(error):
        content = table.content(list(tree.flush()))
        assert content in [normalised(each) for each in possible]
