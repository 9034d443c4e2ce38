"""The pager: blocks can be read wherever they are, the oldest go to disk, and space comes back with the last holder."""

from __future__ import annotations

import gc
import pathlib
import threading

import pytest

from elf.cbt.arena import PAGE_BYTES
from elf.cbt.pager import Block, Pager
from elf.cbt.settings import TreeSettings
from elf.cbt.spill import SpillCorrupt, SpillError

BOUND = 10 * PAGE_BYTES


def pager(folder: pathlib.Path, bound: int = BOUND) -> Pager:
    return Pager(TreeSettings(memory_bytes_max=bound, spill_folder=folder))


def fill(store: Pager, blocks: int) -> list[Block]:
    return [store.put(bytes([n % 256]) * PAGE_BYTES, n, 2 * n) for n in range(blocks)]


def loads(blocks: list[Block]) -> bool:
    return all(block.load() == bytes([block.rows % 256]) * PAGE_BYTES for block in blocks)


def test_the_oldest_go_to_disk_and_all_can_be_read(tmp_path: pathlib.Path) -> None:
    store = pager(tmp_path)
    blocks = fill(store, 40)
    assert loads(blocks)
    assert [type(block.place).__name__ for block in blocks] == ["Ref"] * 30 + ["Slot"] * 10
    assert store.spilled_bytes >= 30 * PAGE_BYTES
    assert (blocks[7].rows, blocks[7].low, blocks[7].size) == (7, 14, PAGE_BYTES)


def test_without_a_bound_nothing_goes_to_disk(tmp_path: pathlib.Path) -> None:
    store = Pager(TreeSettings(spill_folder=tmp_path))
    blocks = fill(store, 100)
    assert loads(blocks)
    assert (store.spilled_bytes, list(tmp_path.iterdir())) == (0, [])


def test_space_comes_back_when_nobody_holds_a_block(tmp_path: pathlib.Path) -> None:
    store = pager(tmp_path)
    blocks = fill(store, 40)
    kept = blocks[::10]
    blocks.clear()
    gc.collect()
    assert store.spilled_bytes < 4 * PAGE_BYTES
    assert loads(kept)
    kept.clear()
    gc.collect()
    assert store.spilled_bytes == 0
    assert not list(tmp_path.glob("*.spill"))


def test_a_block_larger_than_the_bound_is_kept_alone(tmp_path: pathlib.Path) -> None:
    store = pager(tmp_path, bound=1)
    large = store.put(b"x" * 10**6, 1, 0)
    small = store.put(b"y", 1, 0)
    assert [type(block.place).__name__ for block in (large, small)] == ["Ref", "Slot"]
    assert (large.load(), small.load()) == (b"x" * 10**6, b"y")


def test_garbage_on_disk_stays_below_what_lives_there(tmp_path: pathlib.Path) -> None:
    store = pager(tmp_path)
    kept = []
    for _ in range(40):
        kept += fill(store, 50)[::10]
    assert loads(kept)
    on_disk = sum(path.stat().st_size for path in tmp_path.glob("*.spill"))
    assert on_disk < 2 * store.spilled_bytes + (1 << 20)


def test_damage_on_disk_is_told_whoever_reads_the_block(tmp_path: pathlib.Path) -> None:
    store = pager(tmp_path)
    blocks = fill(store, 20)
    for path in tmp_path.glob("*.spill"):
        path.write_bytes(b"?" * path.stat().st_size)
    with pytest.raises(SpillCorrupt):
        blocks[0].load()
    assert loads(blocks[10:])


def test_a_closed_pager_says_so(tmp_path: pathlib.Path) -> None:
    store = pager(tmp_path)
    blocks = fill(store, 20)
    store.close()
    assert not list(tmp_path.glob("*.spill"))
    assert loads(blocks[10:])
    with pytest.raises(SpillError, match="the tree is closed") as caught:
        blocks[0].load()
    assert not isinstance(caught.value, SpillCorrupt)
    store.close()


def test_threads_read_while_blocks_move(tmp_path: pathlib.Path) -> None:
    store = pager(tmp_path)
    blocks = fill(store, 30)
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        try:
            while not stop.is_set():
                if not loads(blocks):
                    wrong.append("other bytes")
        except BaseException as error:
            wrong.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(30):
        fill(store, 50)
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
