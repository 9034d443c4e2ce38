"""An agent's archive is copied to a URL while it grows, is merged and shrinks; a store that fails stops nothing."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from elf.agents.archive import mirror as module
from elf.agents.archive.keeper import Keeper
from elf.agents.archive.layout import check_file, list_files
from elf.agents.archive.mirror import Mirror
from elf.agents.archive.remote import Remote, StoreError, open_url
from elf.agents.archive.removed import read_removed
from tests.agents.archive.archived import read_archive
from tests.agents.archive.test_merge import MINUTE_MS, World, numbers


@pytest.fixture(params=["memory", "file"])
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Remote]:
    fsspec.filesystem("memory").store.clear()
    yield open_url("memory://bucket/elf" if request.param == "memory" else f"file://{tmp_path}/the copy")
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "archive")


def numbers_at(copy: Remote) -> list[int]:
    archived = read_archive(copy, "clicks")
    return sorted(archived["number"]) if archived.height else []


def test_a_copy_has_what_the_folder_has_at_every_stage(world: World, copy: Remote) -> None:
    mirror = Mirror(world.folder, "web-1", copy)
    for rows in (3, 4, 5):
        world.log(rows)
        mirror.turn()
        assert numbers_at(copy) == list(range(world.count))
    sent = mirror.bytes
    mirror.turn()
    assert (mirror.bytes, mirror.waiting) == (sent, 0), "nothing is sent twice"
    for _ in range(4):
        world.now_ms += 16 * MINUTE_MS
        world.keeper.turn()
        mirror.turn()
        assert numbers_at(copy) == list(range(world.count))
    (merged,) = list_files(copy, "clicks")
    assert merged.entry.rows == 12 and check_file(merged)
    sizes = copy.sizes()
    assert sizes == {name: (world.folder / name).stat().st_size for name in world.files() if name in sizes}
    assert len(sizes) == 2, "a file and its manifest"


def test_a_copy_that_missed_a_merge_counts_nothing_twice_when_that_is_merged_again(world: World, copy: Remote) -> None:
    for rows in (4, 4):
        world.log(rows)
    Mirror(world.folder, "web-1", copy).turn()
    world.turns()
    for rows in (5, 5):
        world.log(rows)
    world.turns()
    (merged,) = list_files(world.folder, "clicks")
    assert len(merged.entry.replaces) == 5, "the first merged file, and all small ones"
    assert merged.path.name not in merged.entry.replaces
    # The copying ends as soon as the file is there, before anything goes.
    for name in (f".{merged.path.stem}.json", merged.path.name):
        path = Path(merged.entry.path).with_name(name)
        (copy / path.as_posix()).write_bytes((world.folder / path).read_bytes())
    assert numbers_at(copy) == list(range(18))
    Mirror(world.folder, "web-1", copy).turn()
    assert [file.entry for file in list_files(copy, "clicks")] == [merged.entry]


def test_what_goes_here_goes_there_after_its_record(world: World, copy: Remote) -> None:
    mirror = Mirror(world.folder, "web-1", copy)
    for _ in range(3):
        world.log(2)
    mirror.turn()
    keeper = Keeper(world.folder, "web-1", ["clicks"], 1, None, lambda: world.now_ms + 1_000_000_000, world.damages)
    keeper.turn()
    assert numbers(world.folder) == [] and numbers_at(copy) == list(range(6))
    assert read_removed(copy, "clicks") == []
    mirror.turn()
    assert numbers_at(copy) == [] and read_removed(copy, "clicks") == read_removed(world.folder, "clicks") != []
    assert list(copy.sizes()) == ["source=clicks/.removed-web-1.json"]


def test_another_start_goes_on_and_sends_only_what_is_not_there(world: World, copy: Remote) -> None:
    world.log(2)
    Mirror(world.folder, "web-1", copy).turn()
    world.log(3)
    again = Mirror(world.folder, "web-1", copy)
    again.turn()
    new = [path for path in world.folder.rglob("*-0000000002-*") if path.is_file()]
    assert len(new) == 2 and again.bytes == sum(path.stat().st_size for path in new)
    assert numbers_at(copy) == list(range(5))


def test_agents_share_a_url_and_leave_each_other_alone(tmp_path: Path, copy: Remote) -> None:
    worlds = [World(tmp_path / name) for name in ("one", "two")]
    worlds[0].log(3)
    Mirror(worlds[0].folder, "web-1", copy).turn()
    Mirror(worlds[1].folder, "web-2", copy).turn()
    assert numbers_at(copy) == [0, 1, 2]


def test_a_folder_that_was_lost_does_not_empty_its_copy(world: World, copy: Remote) -> None:
    world.log(3)
    Mirror(world.folder, "web-1", copy).turn()
    shutil.rmtree(world.folder)
    again = Mirror(world.folder, "web-1", copy)
    for _ in range(2):
        with pytest.raises(
            StoreError, match=r"has 2 files of this agent that are no copy of .*; move them away, or give"
        ):
            again.turn()
    assert numbers_at(copy) == [0, 1, 2]
    Mirror(world.folder, "web-1", copy / "elsewhere").turn()
    assert (copy / "elsewhere").sizes() == {}


@pytest.mark.parametrize("operation", ["pipe_file", "rm_file", "find"])
def test_a_store_that_fails_at_any_request_is_caught_up_with(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, operation: str
) -> None:
    store = fsspec.filesystem("memory")
    store.store.clear()
    copy, right, left = open_url("memory://bucket/elf"), getattr(type(store), operation), 0
    mirror, failures = Mirror(world.folder, "web-1", copy), 0

    def request(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise RuntimeError("the store is away")
        return right(*arguments, **options)

    monkeypatch.setattr(type(store), operation, request)
    caplog.set_level(logging.INFO, logger=module.__name__)
    for turn in range(12):
        if turn % 2:
            world.log(2)
        else:
            world.now_ms += 16 * MINUTE_MS
            world.keeper.turn()
        left, before = max(0, turn % 4 - 1), numbers_at(copy)
        failures += not mirror._turn()
        assert set(before) <= set(numbers_at(copy)) <= set(range(world.count))
    assert failures == mirror.failures > 0
    left = 10_000
    assert mirror._turn() and numbers_at(copy) == list(range(world.count)) and mirror.waiting == 0
    said = [record.levelname for record in caplog.records]
    assert said.count("ERROR") == said.count("INFO") < failures, "once for each time that it is away"
    assert "memory://bucket/elf" in caplog.text and "the store is away" in caplog.text
    store.store.clear()


async def test_it_runs_beside_the_agent_and_ends_without_waiting_for_the_store(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fsspec.filesystem("memory")
    store.store.clear()
    monkeypatch.setattr(module, "TURN_S", 0.01)
    copy, mirror = open_url("memory://bucket/elf"), Mirror(world.folder, "web-1", open_url("memory://bucket/elf"))
    world.log(3)
    running = asyncio.create_task(mirror.run())

    async def until_copied(count: int) -> None:
        deadline = time.monotonic() + 60
        while len(await asyncio.to_thread(numbers_at, copy)) < count:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)

    await until_copied(3)
    world.log(2)
    await until_copied(5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert mirror._stopped and mirror.failures == 0
    store.store.clear()
