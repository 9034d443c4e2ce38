"""Records the state that agents of this checkout write: `PYTHONPATH=. python -m tests.recorded.record OUT.tar.xz`.

`0.1.0.tar.xz` was made by this file and its neighbours at commit 9b9c380. Each later layout of the state gets a file of
its own beside it; what was recorded is never made anew. Some minutes of virtual time leave on disk what each kind of
job, source and trouble leaves there; one of four agents is retired. At the end one is killed while another stands
still, so that it and its neighbour hold what nobody has settled; the others are stopped in order.

The archive holds `AGENT/data` and `AGENT/logs` as they lay on disk, and `told.json`: what was answered just before,
what each database holds, and all clicks there ever were.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from typing import Any
from unittest import mock

from elf.agents.errors import JobConflictError
from elf.agents.publications.change import Wanted
from tests.recorded.holdings import counted_rows, holdings
from tests.recorded.scene import ADDRESSES, CREATOR, JOBS, NAMES, Traffic, query_of, settings
from tests.recorded.world import World

#: Wall clock as it begins; a whole minute.
BEGAN_MS = 1_760_000_040_000
#: Where the agents' folders are meanwhile: their databases name it.
FOLDER = pathlib.Path(tempfile.gettempdir()) / "elf-recorded"
#: Who is killed at the end, and who stands still then: the others wait for it with what they have sealed.
KILLED, STILL = "web3", "web2"
#: What is kept of an answer.
TOLD = ("rows", "completeness", "version")
#: The killed agent's folder is taken at that moment, not after its end.
TAKEN = "taken"


class Recording:
    """One run, from the first agent's start to the last one's end."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.world = World(BEGAN_MS)
        self.traffic = Traffic(folder, seed=7)
        self.told: dict[str, Any] = {"began_ms": BEGAN_MS, "killed": KILLED, "members": [], "jobs": {}}

    async def run(self) -> None:
        """Let all of it happen."""
        for name in ADDRESSES:
            self.traffic.log(name, self.world.wall_ms())
            await self.world.start(name, settings(self.folder, name))
        await self._sell(5)
        for text in JOBS.values():
            await self.world.ask("web1", lambda service, text=text: service.publish(text, "job.toml", None, None))
        await self._sell(35)
        await self._trouble()
        await self._changes()
        await self._sell(20)
        await self.world.stop("web4")
        await self._leap("totals")
        await self._sell(25, NAMES)
        await self.world.ask("web1", lambda service: service.retire("web4", None))
        self.told["retired_ms"] = self.world.wall_ms()
        await self._sell(25, NAMES)
        while self.world.wall_ms() % 10_000 != 1_000:
            await self._sell(1, NAMES)
        await self._ask()
        await self._end()
        await self.world.stop_all()

    async def _push(self, name: str, body: bytes) -> None:
        await self.world.ask(name, lambda service: service.ingest("clicks", body))

    async def _sell(self, seconds: int, names: tuple[str, ...] = tuple(ADDRESSES)) -> None:
        """Have something happen at each of some agents each second, and end on a whole second."""
        for _ in range(seconds):
            for name in names:
                now_ms = self.world.wall_ms()
                self.traffic.log(name, now_ms)
                await self._push(name, self.traffic.pushed(name, now_ms))
            await asyncio.sleep(1 - self.world.loop.time() % 1)

    async def _trouble(self) -> None:
        """Lines that are none, events that are late, a log that is rotated away."""
        for name in NAMES:
            await self._push(name, self.traffic.junk(name))
            await self._push(name, self.traffic.pushed(name, self.world.wall_ms() - 25_000))
        self.traffic.rotate("web1")
        await self._sell(2)

    async def _changes(self) -> None:
        """Change some jobs, pause one, and stop one, of which answers are noted before."""
        await self._note("stopped")
        fewer = query_of("changed").replace("FROM clicks", "FROM clicks WHERE cents > 50")
        longer = query_of("longer").replace("10 seconds", "20 seconds")
        for name, wanted in (
            ("changed", Wanted(change="update", query=fewer)),
            ("longer", Wanted(change="update", query=longer, options={"interval": "20s"})),
            ("paused", Wanted(change="pause")),
        ):
            await self.world.ask(
                "web2", lambda service, name=name, wanted=wanted: service.change(CREATOR, name, wanted)
            )
        await self.world.ask("web1", lambda service: service.stop(CREATOR, "stopped", 86_400_000))

    async def _leap(self, job: str) -> None:
        """Wait for the one that has left no longer, as soon as the job does."""
        while True:
            try:
                await self.world.ask("web1", lambda service: service.leap(CREATOR, job))
                return
            except JobConflictError:
                await self._sell(1, NAMES)

    async def _ask(self) -> None:
        """Note what is answered of all windows that have closed."""
        self.told["members"] = await self.world.ask("web1", lambda service: service.members())
        for name in JOBS:
            if name not in self.told["jobs"]:
                await self._note(name)

    async def _note(self, name: str) -> None:
        job = await self.world.ask("web1", lambda service: service.job(CREATOR, name))
        answers = {}
        for window in self._windows(job):
            result = await self.world.ask(
                "web1", lambda service, window=window: service.result(CREATOR, name, window, None, None)
            )
            answers[window] = {each: result[each] for each in TOLD}
        self.told["jobs"][name] = {
            "through_ms": job["through_ms"],
            "versions": [[each["version"], each["what"], each["since_ms"]] for each in job["versions"]],
            "retired": job["retired"],
            "answers": answers,
        }

    @staticmethod
    def _windows(job: dict[str, Any]) -> list[str]:
        if job["window"] is None:
            return ["latest"]
        size_ms, slide_ms = job["window"]["size_ms"], job["window"]["slide_ms"]
        ends = range(BEGAN_MS + slide_ms, job["through_ms"] + 1, slide_ms)
        return [f"{end_ms - size_ms}/{end_ms}" for end_ms in ends]

    async def _end(self) -> None:
        """Kill one agent while another stands still, as an interval ends; then stop the others."""
        self.world.loop.pause(self.world.hosts[STILL])
        awake = tuple(name for name in NAMES if name != STILL)
        await self._sell(1, awake)
        # The interval has ended two seconds ago, and was sealed; it has reached a neighbour's disk, but no root.
        await asyncio.sleep(0.7)
        self.world.kill(KILLED, self.folder / KILLED, self.folder / TAKEN / KILLED)
        await self.world.stop("web1")
        self.world.loop.resume(self.world.hosts[STILL])
        await self._sell(1, (STILL,))
        await self.world.stop(STILL)
        self.told["ended_ms"] = self.world.wall_ms()


def record(folder: pathlib.Path) -> dict[str, Any]:
    """Let everything happen in a folder; return what is to be told of it."""
    recording = Recording(folder)
    recording.world.loop.run(recording.run())
    assert recording.world.loop.errors == []
    told = recording.told
    check_settled(told)
    told["clicks"] = recording.traffic.clicks
    told["holds"], told["rows"] = {}, {}
    for name in NAMES:
        with tempfile.TemporaryDirectory() as aside:
            # Opening it takes in the log beside it, which is to stay.
            state = pathlib.Path(shutil.copytree(_folder(folder, name) / "data", f"{aside}/data")) / "state.db"
            told["holds"][name] = holdings(state)
            told["rows"][name] = counted_rows(state)
    return told


def check_settled(told: dict[str, Any]) -> None:
    """See that what was answered last is what will be answered: an agent that was leapt over brings its data later."""
    for name in JOBS.keys() - {"ever", "iterated", "paused", "stopped"}:
        for window, answer in told["jobs"][name]["answers"].items():
            lacks = answer["completeness"]["missing"]
            is_late = int(window.split("/")[0]) >= told["retired_ms"]
            assert not (is_late and lacks), f"{name} {window} lacks {lacks} for now: record anew"


def pack(folder: pathlib.Path, told: dict[str, Any], out: pathlib.Path) -> None:
    """Put the folders of the agents that are left, and what is told of them, into one file."""

    def nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    (folder / "told.json").write_text(json.dumps(told, indent=1, sort_keys=True))
    with tarfile.open(out, "w:xz", preset=9) as packed:
        packed.add(folder / "told.json", "told.json", filter=nobodys)
        for name in NAMES:
            packed.add(_folder(folder, name), name, filter=nobodys)


def _folder(folder: pathlib.Path, name: str) -> pathlib.Path:
    return folder / TAKEN / name if name == KILLED else folder / name


@contextlib.contextmanager
def on_no_machine() -> Iterator[None]:
    """Keep what is this machine's own out of what is recorded."""
    read = pathlib.Path.read_text

    def read_text(path: pathlib.Path, *args: Any, **options: Any) -> str:
        if path == pathlib.Path("/etc/machine-id"):
            raise FileNotFoundError(path)
        return read(path, *args, **options)

    with (
        mock.patch("socket.gethostname", return_value="web.example"),
        mock.patch.object(pathlib.Path, "read_text", read_text),
    ):
        yield


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    with on_no_machine():
        pack(FOLDER, record(FOLDER), pathlib.Path(sys.argv[1]))
