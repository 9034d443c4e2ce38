"""State that earlier releases wrote is opened and read on: same answers, nothing lost, nothing counted twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import re
import sqlite3
import tarfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeAlias

import lz4.frame
import polars as pl
import pytest

from elf.agents.archive.inventory import list_held
from elf.agents.archive.reader import parquet_of
from elf.agents.errors import StoppedError
from elf.agents.http.agent_service import Service
from elf.agents.publications.change import Wanted
from tests.recorded.holdings import counted_rows, holdings
from tests.recorded.scene import (
    COUNTED,
    CREATOR,
    JUNK,
    LOSING,
    NAMES,
    REPEATING,
    Sums,
    Traffic,
    settings,
    sums,
    told_sums,
)
from tests.recorded.world import World

RECORDINGS = sorted(pathlib.Path(__file__).parent.glob("*.tar.xz"))
#: How long all agents are down between the recording's end and what is tested; meanwhile web servers log on.
DOWN_MS = 17_000
#: A module of ours, as a dotted name or as a file.
MODULE = re.compile(rb"\b(?:agents|overlay|cbt|elf)(?:\.[a-z_]{3,}|(?:/[a-z_]+)*/[a-z_]+\.py)")
#: What a pickled object begins with, and what names a class or a function elsewhere.
CODE = (b"\x80\x04\x95", b"\x80\x05\x95", b"__module__", b"__qualname__", b"__reduce__")
#: Of what is compressed.
FRAME = b"\x04\x22\x4d\x18"
#: What a result says that lacks nothing.
COMPLETE = ("final", "revised")
FIELDS = ("ts", "product", "user", "cents", "weight")

Answer: TypeAlias = dict[str, Any]


@pytest.fixture(params=RECORDINGS, ids=lambda path: path.name.removesuffix(".tar.xz"))
def folder(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> pathlib.Path:
    """What was recorded, as it lay on disk."""
    with tarfile.open(request.param) as packed:
        # Python 3.11.2, Debian's, takes no argument for it.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(tmp_path)
    return tmp_path


@pytest.fixture
def told(folder: pathlib.Path) -> dict[str, Any]:
    """What was told of it."""
    found: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return found


def test_the_store_reads_all_that_is_in_each_database(folder: pathlib.Path, told: dict[str, Any]) -> None:
    for name in NAMES:
        state = folder / name / "data" / "state.db"
        assert holdings(state) == told["holds"][name]
        counts = counted_rows(state)
        assert {table: counts.get(table) for table in told["rows"][name]} == told["rows"][name]


def test_what_is_recorded_leaves_no_table_empty(told: dict[str, Any]) -> None:
    tables = {table for rows in told["rows"].values() for table in rows}
    assert {table for table in tables if not any(rows[table] for rows in told["rows"].values())} == set()


def test_no_record_names_a_module(folder: pathlib.Path) -> None:
    """So code may move; functions and applications are found by names that people gave them."""
    files = [path for name in NAMES for path in (folder / name / "data").rglob("*") if path.is_file()]
    assert any(path.name.endswith("-wal") and path.stat().st_size for path in files), "a killed agent leaves its log"
    texts = [path.read_bytes() for path in files]
    texts += [text for name in NAMES for text in values_of(folder / name / "data" / "state.db")]
    texts += [text for value in texts for text in frames_in(value)]
    for text in texts:
        assert not MODULE.findall(text)
        assert not [word for word in CODE if word in text]


def values_of(state: pathlib.Path) -> Iterator[bytes]:
    """Return each text and blob of a database."""
    sql = sqlite3.connect(state)
    sql.text_factory = bytes
    for (table,) in sql.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for row in sql.execute(f"SELECT * FROM {table.decode()}"):
            yield from (value for value in row if isinstance(value, bytes))
    sql.close()


def frames_in(value: bytes) -> Iterator[bytes]:
    """Return what is compressed in some bytes."""
    at = value.find(FRAME)
    while at >= 0:
        with contextlib.suppress(RuntimeError):  # in a file a frame may be cut by the end of a page
            yield lz4.frame.LZ4FrameDecompressor().decompress(value[at:])
        at = value.find(FRAME, at + 1)


def named_since(then: dict[str, Any]) -> dict[str, Any]:
    """Return an answer as it has to be now: whoever began within a window stays named once it has left.

    All agents began within a job's first window. 0.1.0 did not name web4 there, which had been retired: the label was
    better than the rows.
    """
    known = then["completeness"]
    if known["missing"] != list(NAMES):
        return then
    missing = [*NAMES, "web4"]
    return {**then, "completeness": {**known, "missing": missing, "reported": max(0, known["expected"] - len(missing))}}


class Reading:
    """Agents of the present code on what was recorded."""

    def __init__(self, folder: pathlib.Path, told: dict[str, Any]) -> None:
        self.folder, self.told = folder, told
        self.world = World(told["ended_ms"] + DOWN_MS)
        self.traffic = Traffic(folder, seed=8, clicks=told["clicks"])
        self.jobs: dict[str, Any] = told["jobs"]

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        """Let all agents be started, something happen, and all be stopped in order."""

        async def whole() -> None:
            try:
                await self.start()
                await scenario()
            finally:
                await self.world.stop_all()

        self.world.loop.run(whole())
        assert self.world.loop.errors == []

    async def start(self) -> None:
        """Start all agents; they find lines that were written while they were away."""
        for at_ms in range(self.told["ended_ms"], self.world.wall_ms(), 1_000):
            for name in NAMES:
                self.traffic.log(name, at_ms)
        for name in NAMES:
            agent = await self.world.start(name, settings(self.folder, name))
            assert agent.agent_id == self.told["holds"][name]["agent"]
        await self.world.wait(self.is_ready)

    async def is_ready(self) -> bool:
        """Tell whether all agents are."""

        async def ready(service: Service) -> bool:
            return service.ready()[0]

        return all([await self.world.ask(name, ready) for name in NAMES])

    async def sell(self, seconds: int) -> None:
        """Have lines logged and pushed at each agent."""
        for _ in range(seconds):
            for name in NAMES:
                now_ms = self.world.wall_ms()
                self.traffic.log(name, now_ms)
                await self.push(name, self.traffic.pushed(name, now_ms))
            await asyncio.sleep(1)

    async def push(self, name: str, body: bytes) -> None:
        assert await self.world.ask(name, lambda service: service.ingest("clicks", body)) == (body.count(b"\n"), False)

    async def result(self, job: str, window: str) -> Answer:
        return await self.world.ask("web2", lambda service: service.result(CREATOR, job, window, None, None))

    async def described(self, job: str) -> Answer:
        return await self.world.ask("web2", lambda service: service.job(CREATOR, job))

    async def check_answers(self, job: str) -> None:
        """Hold what is answered of the windows that had closed to what was answered then."""
        for window, then in self.jobs[job]["answers"].items():
            now = await self.result(job, window)
            assert {each: now[each] for each in then} == named_since(then), f"{job} {window}"

    async def check_described(self, job: str) -> None:
        """Hold what is said of a job itself to what was said then."""
        now, then = await self.described(job), self.jobs[job]
        versions = [[each["version"], each["what"], each["since_ms"]] for each in now["versions"]]
        assert versions[: len(then["versions"])] == then["versions"]
        assert now["retired"] == ["web4"]
        assert now["roster"] == list(NAMES)

    async def counted(self, jobs: Iterable[str], end_ms: int) -> None:
        """Wait until some jobs have counted all intervals up to a time."""

        async def are_there() -> bool:
            return min([(await self.described(job))["through_ms"] or 0 for job in jobs]) >= end_ms

        await self.world.wait(are_there)

    async def complete(self, job: str, start_ms: int, end_ms: int) -> Answer:
        """Return a window's result once nothing is missing from it."""
        window = f"{start_ms}/{end_ms}"

        async def nothing_is_missing() -> bool:
            return (await self.result(job, window))["completeness"]["status"] in COMPLETE

        await self.world.wait(nothing_is_missing)
        return await self.result(job, window)

    def expected(self, start_ms: int, end_ms: int) -> Sums:
        return sums(self.traffic.clicks, start_ms, end_ms)

    async def check_counts(self, job: str, first_ms: int, end_ms: int) -> None:
        """Hold the windows of a span of time to the clicks that there were."""
        size_ms, slide_ms = COUNTED[job]
        first_ms = -(-first_ms // slide_ms) * slide_ms
        for start_ms in range(first_ms, end_ms - size_ms + 1, slide_ms):
            answer = await self.complete(job, start_ms, start_ms + size_ms)
            assert told_sums(answer["rows"]) == self.expected(start_ms, start_ms + size_ms), f"{job} {start_ms}"

    async def check_labels(self, job: str, first_ms: int, end_ms: int) -> None:
        """Hold the windows in which agents fell and came to what this job promises: its label says what is lacking."""
        size_ms, slide_ms = COUNTED[job]
        first_ms = -(-first_ms // slide_ms) * slide_ms
        for start_ms in range(first_ms, end_ms - size_ms + 1, slide_ms):
            answer = await self.result(job, f"{start_ms}/{start_ms + size_ms}")
            rows, expected = told_sums(answer["rows"]), self.expected(start_ms, start_ms + size_ms)
            is_complete = answer["completeness"]["status"] in COMPLETE
            if job in LOSING:
                assert all(n <= expected.get(product, (0, 0))[0] for product, (n, _) in rows.items())
                assert not is_complete or rows == expected
            else:
                assert not is_complete or all(rows[product][0] >= n for product, (n, _) in expected.items())

    def archived(self) -> list[tuple[Any, ...]]:
        """Return the clicks in the agents' archives, without what is set aside, as `FIELDS`."""
        files = [
            each
            for name in NAMES
            for each in list_held(self.folder / name / "data" / "archive", self.told["holds"][name]["agent"])
            if each.root.name == "source=clicks" and each.kind == "visible"
        ]
        epoch_ms = pl.col("ts").dt.epoch("ms")
        frames = [pl.read_parquet(parquet_of(each.path)).with_columns(epoch_ms) for each in files]
        return [row for frame in frames for row in frame.select(FIELDS).rows()]


def test_agents_answer_as_before_and_count_on(folder: pathlib.Path, told: dict[str, Any]) -> None:
    reading = Reading(folder, told)

    async def scenario() -> None:
        before_ms, after_ms = told["retired_ms"], told["ended_ms"]
        for job in sorted(reading.jobs.keys() - {"stopped", "ever"}):
            await reading.check_answers(job)
            await reading.check_described(job)
        restarted_ms = reading.world.wall_ms()
        await reading.sell(22)
        end_ms = reading.world.wall_ms() // 10_000 * 10_000
        await reading.counted(COUNTED, end_ms)
        for job in sorted(COUNTED.keys() - {*LOSING, *REPEATING}):
            await reading.check_counts(job, before_ms, end_ms)
        for job in (*LOSING, *REPEATING):
            await reading.check_labels(job, before_ms, end_ms)
            await reading.check_counts(job, restarted_ms, end_ms)
        assert after_ms < restarted_ms < end_ms - 10_000

    reading.run(scenario)


def test_a_job_without_a_window_goes_on_from_its_sums(folder: pathlib.Path, told: dict[str, Any]) -> None:
    reading = Reading(folder, told)

    async def scenario() -> None:
        then = told["jobs"]["ever"]
        [answer] = then["answers"].values()
        await reading.sell(2)
        end_ms = reading.world.wall_ms() // 10_000 * 10_000
        await reading.counted(["ever"], end_ms)
        now = await reading.result("ever", "latest")
        fresh = reading.expected(then["through_ms"], (await reading.described("ever"))["through_ms"])
        known = told_sums(answer["rows"])
        assert told_sums(now["rows"]) == {
            product: (n + fresh.get(product, (0, 0))[0], cents + fresh.get(product, (0, 0))[1])
            for product, (n, cents) in known.items()
        }

    reading.run(scenario)


def test_late_events_revise_windows_of_before(folder: pathlib.Path, told: dict[str, Any]) -> None:
    reading = Reading(folder, told)

    async def scenario() -> None:
        late_ms = told["retired_ms"] // 10_000 * 10_000 + 10_000
        then = told["jobs"]["totals"]["answers"][f"{late_ms}/{late_ms + 10_000}"]
        await reading.push("web3", reading.traffic.pushed("web3", late_ms + 5_000))

        async def revised() -> bool:
            now = await reading.result("totals", f"{late_ms}/{late_ms + 10_000}")
            return bool(now["completeness"]["revision"] > then["completeness"]["revision"])

        await reading.world.wait(revised)
        now = await reading.complete("totals", late_ms, late_ms + 10_000)
        assert told_sums(now["rows"]) == reading.expected(late_ms, late_ms + 10_000)
        assert now["completeness"] == {**then["completeness"], "status": "revised", "revision": 1}

    reading.run(scenario)


def test_jobs_that_rest_are_taken_up_again(folder: pathlib.Path, told: dict[str, Any]) -> None:
    reading = Reading(folder, told)

    async def scenario() -> None:
        with pytest.raises(StoppedError):
            await reading.result("stopped", "latest")
        for job in ("paused", "stopped"):
            await reading.world.ask(
                "web3", lambda service, job=job: service.change(CREATOR, job, Wanted(change="resume"))
            )
            await reading.check_answers(job)
        back = await reading.world.ask(
            "web1", lambda service: service.change(CREATOR, "changed", Wanted(change="rollback"))
        )
        begins_ms = reading.world.wall_ms() // 10_000 * 10_000 + 20_000
        assert back["version"] == 3
        await reading.sell((begins_ms - reading.world.wall_ms()) // 1_000 + 11)
        for job in ("paused", "stopped", "changed"):
            answer = await reading.complete(job, begins_ms, begins_ms + 10_000)
            assert told_sums(answer["rows"]) == reading.expected(begins_ms, begins_ms + 10_000), job

    reading.run(scenario)


def test_archives_and_rejected_lines_are_read_on(folder: pathlib.Path, told: dict[str, Any]) -> None:
    reading = Reading(folder, told)
    known = {path: path.read_bytes() for name in NAMES for path in (folder / name / "data").glob("rejected/*")}
    assert len(reading.archived()) > 600

    async def scenario() -> None:
        await reading.sell(2)
        await reading.push("web2", reading.traffic.junk("web2"))

    reading.run(scenario)
    wanted = Counter(tuple(map(each.get, FIELDS)) for each in reading.traffic.clicks if each["agent"] in NAMES)
    assert Counter(reading.archived()) == wanted
    assert all(path.read_bytes().startswith(text) for path, text in known.items())
    for name in NAMES:
        held = holdings(folder / name / "data" / "state.db")
        then = told["holds"][name]["sources"]["clicks"]
        assert held["damages"] == 0
        assert held["sources"]["clicks"]["rejected"] - then["rejected"] == (len(JUNK) if name == "web2" else 0)
        clicks = [each for each in reading.traffic.clicks if each["agent"] == name]
        assert held["sources"]["clicks"]["read"] == len(clicks) + held["sources"]["clicks"]["rejected"]
