"""Keeps a copy of one agent's archive at a URL in step with its folder, in a thread of its own.

The agent goes on writing its folder, whose commits need renames that stores of objects do not have; what is in it is
copied afterwards, one way, a file at a time. What is copied and in which order is `elf.agents.archive.mirror_plan`;
this is the reading, writing and waiting around it. A store that fails stops nothing: it is said once, counted, and
tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from elf.agents.archive.layout import MERGED, ArchiveError, FileEntry, safe_name
from elf.agents.archive.mirror_plan import Own, Put, manifest_name, plan
from elf.agents.archive.remote import Remote, StoreError
from elf.agents.host import disk

log = logging.getLogger(__name__)
#: Pause between two turns: by how much the copy is behind, if the store keeps up.
TURN_S = 20.0
#: Longest pause after failures, each of which doubles it.
PAUSE_S_MAX = 640.0


class Mirror:
    """Copies an agent's files; of its attributes all but the counters belong to the thread of the turn.

    Args:
        folder: the archive's folder.
        agent: the agent's name or address, as its `Archive`s have it.
        copy: where the copy is; others may have theirs there, too.
    """

    def __init__(self, folder: Path, agent: str, copy: Remote) -> None:
        self._folder = folder
        self._copy = copy
        self._own = Own(agent)
        #: Names the URLs at which copies of this folder are, one a line.
        self._mark = folder / f".copied-{safe_name(agent)}"
        #: The agent's files at the copy; None while they have to be listed.
        self._there: dict[str, int] | None = None
        self._records: dict[str, bytes] = {}
        self._failing = self._stopped = False
        #: Since the start: bytes copied, turns that failed; as of the last turn: files that are not there yet.
        self.bytes = 0
        self.failures = 0
        self.waiting = 0

    async def run(self) -> None:
        """Take turns until cancelled; nobody waits for one that is under way then, as it may be cut short anywhere."""
        failed = 0
        try:
            while True:
                failed = 0 if await _in_daemon(self._turn) else failed + 1
                await asyncio.sleep(min(TURN_S * 2**failed, PAUSE_S_MAX))
        finally:
            self._stopped = True

    def _turn(self) -> bool:
        """Take a turn; say when failing begins and ends."""
        try:
            self.turn()
        except Exception as error:  # whatever it is, the agent goes on
            self.failures += 1
            self._there = None
            if not self._failing:
                known = isinstance(error, ArchiveError | OSError)
                log.error("the archive is not copied now, will try again: %s", error, exc_info=not known)
            self._failing = True
            return False
        if self._failing:
            log.info("the archive is copied to %s again", self._copy)
        self._failing = False
        return True

    def turn(self) -> None:
        """Bring the copy in step, once. O(files), a request for each that is put or removed.

        Raises:
            StoreError: the store failed, or has files of this agent that are of another folder; see `_claim`.
            OSError: the disk refused.
        """
        if self._there is None:
            self._records.clear()
            there = {name: size for name, size in self._copy.sizes().items() if self._own.is_event_file(name)}
            self._claim(len(there))
            self._there = there
        here = self._list_here()
        # After the listing: what is gone from it was on record before it went.
        records = {name: data for name, data in self._read_records() if self._records.get(name) != data}
        try:
            actions = plan(here, self._there, records, self._replaced_by)
        except FileNotFoundError:
            return  # merged or removed since it was listed: the next turn sees it as it is then
        self.waiting = sum(isinstance(action, Put) and action.name.endswith(".parquet") for action in actions)
        for action in actions:
            if self._stopped:
                return
            if not isinstance(action, Put):
                (self._copy / action.name).unlink()
                self._there.pop(action.name, None)
            elif action.name in records:
                self._put(action.name, records[action.name])
                self._records[action.name] = records[action.name]
            else:
                try:
                    data = (self._folder / action.name).read_bytes()
                except FileNotFoundError:
                    return  # as above
                self._put(action.name, data)
                self._there[action.name] = len(data)
                self.waiting -= action.name.endswith(".parquet")

    def _put(self, name: str, data: bytes) -> None:
        (self._copy / name).write_bytes(data)
        self.bytes += len(data)

    def _claim(self, files: int) -> None:
        """Note here, before anything is copied, where to; refuse a copy that was made of another folder.

        A disk that was lost, or not mounted, and a folder that was moved would empty the copy.
        """
        url, known = str(self._copy), list[str]()
        with contextlib.suppress(FileNotFoundError):
            known = self._mark.read_text(encoding="utf-8").splitlines()
        if url in known:
            return
        if files:
            raise StoreError(
                f"{url} has {files} files of this agent that are no copy of {self._folder}, and they would go; "
                "move them away, or give another archive.copy_to"
            )
        disk.make_folder(self._folder)
        disk.replace_durably(self._mark, "\n".join([*known, url]).encode())

    def _list_here(self) -> dict[str, int]:
        """List the agent's files; hours before what waits for them, so that what moves there meanwhile is seen."""
        found = {}
        for root in sorted(self._folder.glob("source=*")):
            for tree in (root, root / MERGED):
                for path in tree.glob("date=*/hour=*/*"):
                    name = path.relative_to(self._folder).as_posix()
                    if self._own.is_event_file(name) and not path.name.startswith("_"):
                        with contextlib.suppress(FileNotFoundError):
                            found[name] = path.stat().st_size
        return found

    def _read_records(self) -> Iterator[tuple[str, bytes]]:
        for path in sorted(self._folder.glob("source=*/.removed-*.json")):
            name = path.relative_to(self._folder).as_posix()
            if self._own.is_record(name):
                yield name, path.read_bytes()

    def _replaced_by(self, data: str) -> tuple[str, ...]:
        manifest = (self._folder / manifest_name(data)).read_bytes()
        try:
            return msgspec.json.decode(manifest, type=FileEntry).replaces
        except msgspec.DecodeError:
            return ()  # damage; here, too, what it replaced is gone


async def _in_daemon(work: Callable[[], bool]) -> bool:
    """Do work in a thread that a process that ends does not wait for: a store may take its time to fail."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bool] = loop.create_future()

    def finish(result: bool) -> None:
        if not done.done():
            done.set_result(result)

    def run() -> None:
        result = work()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(finish, result)

    threading.Thread(target=run, name="archive-copy", daemon=True).start()
    return await done
