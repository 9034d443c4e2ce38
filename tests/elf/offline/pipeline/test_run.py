"""A table in step with archives, whatever happens to their files; windows are counted by Polars here, not by Spark."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from elf.agents.archive.archive import Archive
from elf.agents.archive.keeper import Keeper
from elf.agents.archive.layout import MIXED, ArchivedFile, DamagedFileError
from elf.agents.archive.merge import GRACE_MS, QUIET_MS
from elf.agents.errors import JobSpecError
from elf.agents.host.disk_damage import Damages
from elf.offline.pipeline.due import Pass
from elf.offline.pipeline.run import Done, Pipeline, PipelineJob, Settings, run_pipeline
from elf.offline.session import OfflineError
from tests.agents.archive.archived import read_archive
from tests.agents.archive.conftest import Disk

HOUR_MS = 3_600_000
START_MS = 1_767_225_600_000
SIZE_MS, SLIDE_MS = 1_200_000, 600_000
QUERY = "SELECT user, count(*) AS n FROM clicks GROUP BY window(ts, '20 minutes', '10 minutes'), user"
JOB = PipelineJob("ops", "top", "clicks", QUERY, {}, 0)
TOTAL = dataclasses.replace(JOB, query="SELECT count(*) AS n FROM clicks")


class World:
    """Two agents' archives, a clock moved by hand, and a table; windows are counted by Polars."""

    def __init__(self, folder: Path, job: PipelineJob = JOB, since_ms: int | None = None) -> None:
        self.folder, self.job = folder, job
        self.now_ms = START_MS + 24 * HOUR_MS
        self.settings = Settings([folder / "a1", folder / "a2"], folder / "out", since_ms)
        self.archives = [Archive(folder / f"a{n}", "clicks", f"web-{n}", rows_max=1_000) for n in (1, 2)]
        self.sequence = 0
        self.said: list[str] = []
        #: Called while windows are computed.
        self.meanwhile: Callable[[], object] = lambda: None

    def log(self, minutes: Sequence[float], agent: int = 0, **columns: type[pl.DataType]) -> None:
        """Have an agent archive an event at each of these minutes, with a number in further columns."""
        at = [START_MS + round(minute * 60_000) for minute in minutes]
        frame = pl.DataFrame({"ts": pl.Series(at).cast(pl.Datetime("ms")), "user": ["ann"] * len(at)})
        frame = frame.with_columns(pl.lit(7).cast(kind).alias(name) for name, kind in columns.items())
        self.sequence += 1
        self.archives[agent].append(frame)
        self.archives[agent].prepare(self.sequence)
        self.archives[agent].commit(self.sequence)

    def keeper(self, retain_ms: int | None = None, agent: int = 0) -> Keeper:
        name = f"web-{agent + 1}"
        return Keeper(self.folder / f"a{agent + 1}", name, ["clicks"], retain_ms, None, lambda: self.now_ms, Damages())

    def compute(
        self, files: Sequence[ArchivedFile], columns: Mapping[str, str], chosen: Pass, now_ms: int, folder: Path
    ) -> dict[int | None, Path]:
        self.meanwhile()
        frames = [pl.read_parquet(file.path, columns=["ts"], hive_partitioning=False) for file in files]
        staged: dict[int | None, Path] = {}
        for start, count in counts(pl.concat(frames), None if chosen.grid is None else chosen.grid.starts).items():
            staged[start] = folder / f"{start}.parquet"
            staged[start].write_bytes(b"")
            pl.DataFrame({"n": [count], "_computed": [now_ms]}).write_parquet(staged[start])
        return staged

    def pipeline(self) -> Pipeline:
        return Pipeline(self.job, self.settings, self.compute, lambda: self.now_ms, self.said.append)

    def run(self) -> list[Done]:
        """Look once, as `--trigger available-now` does."""
        done: list[Done] = []
        run_pipeline(
            self.job,
            self.settings,
            compute=self.compute,
            done=done.append,
            say=self.said.append,
            now_ms=lambda: self.now_ms,
        )
        return done

    @property
    def table(self) -> dict[str, tuple[int, int]]:
        """Each window's count, and when it was computed."""
        files = (self.folder / "out/ops/top").rglob("*.parquet")
        rows = {file.parent.name: pl.read_parquet(file, hive_partitioning=False).row(0) for file in files}
        return {name: (row[0], row[1]) for name, row in sorted(rows.items())}

    def counted(self) -> dict[str, int]:
        return {name: count for name, (count, _) in self.table.items()}

    def expected(self) -> dict[str, int]:
        events = pl.concat(
            [read_archive(folder, "clicks").select("ts") for folder in self.settings.archives], how="vertical_relaxed"
        )
        first, last = START_MS - SIZE_MS, START_MS + 24 * HOUR_MS
        return {name_of(start): count for start, count in counts(events, range(first, last, SLIDE_MS)).items()}


def counts(events: pl.DataFrame, starts: range | None) -> dict[int | None, int]:
    at_ms = events["ts"].dt.epoch("ms")
    if starts is None:
        return {None: events.height}
    found = {start: int(at_ms.is_between(start, start + SIZE_MS, closed="left").sum()) for start in starts}
    return {start: count for start, count in found.items() if count}


def name_of(start_ms: int) -> str:
    return f"window={start_ms}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_an_agent_that_results_expect_and_no_folder_has_files_of_is_named_once(tmp_path: Path) -> None:
    names = {"web-1": "shop-a", "web-2": "shop-b", "web-3": "gone"}
    world = World(tmp_path, dataclasses.replace(JOB, names=names, roster=["shop-a", "shop-b"]))
    world.log([1])
    world.run()
    (said,) = world.said
    assert said.startswith("no archive of shop-b is among the folders given, or it has no event yet; add it with")
    world.log([2], agent=1)
    world.said.clear()
    world.run()
    assert not world.said
    world.settings = dataclasses.replace(world.settings, archives=world.settings.archives[:1])
    with pytest.raises(OfflineError, match=r"has events of shop-b, and no folder given has any file of theirs"):
        world.run()


def test_all_that_has_ended_is_there_and_nothing_is_computed_twice(world: World) -> None:
    world.log([0, 5, 15, 95])
    world.log([7, 200], agent=1)
    done = world.run()
    assert world.counted() == world.expected() and len(world.table) == 7
    assert sum(one.with_rows for one in done) == 7
    assert world.run() == []


def test_late_events_change_only_their_windows(world: World) -> None:
    world.log([0, 5, 15, 95])
    world.log([100], agent=1)
    world.run()
    before = world.table
    world.now_ms += 1_000
    world.log([12], agent=1)
    (done,) = world.run()
    changed = {name for name, row in world.table.items() if before.get(name) != row}
    assert changed == {name_of(START_MS), name_of(START_MS + SLIDE_MS)} and done.windows == 2
    assert world.counted() == world.expected()


def test_a_merge_changes_nothing(world: World) -> None:
    for minute in range(5):
        world.log([minute, 70 + minute])
    world.log([3], agent=1)
    world.run()
    before = world.table
    world.now_ms += QUIET_MS + 400 * 86_400_000  # The files show the time of this machine.
    keeper = world.keeper()
    for _ in range(4):
        keeper.turn()
        assert world.run() == []
        world.now_ms += 2 * GRACE_MS
    assert keeper.merged and len(list((world.folder / "a1").rglob("[!_.]*.parquet"))) == 2
    assert world.table == before
    world.log([4])
    assert len(world.run()) == 1
    assert world.counted() == world.expected()


def test_windows_wait_until_they_have_ended(world: World) -> None:
    world.job = dataclasses.replace(JOB, lateness_ms=60_000)
    world.log([1, 15, 25])
    world.log([2], agent=1)
    world.now_ms = START_MS + 20 * 60_000 + 59_999
    world.run()
    assert set(world.table) == {name_of(START_MS - SLIDE_MS)}
    world.now_ms += 1
    world.run()
    assert set(world.table) == {name_of(START_MS - SLIDE_MS), name_of(START_MS)}
    world.now_ms += HOUR_MS
    world.run()
    assert world.counted() == world.expected()


def test_windows_before_since_wait_for_a_run_that_wants_them(world: World) -> None:
    world.log([0, 100])
    world.log([0], agent=1)
    world.settings = dataclasses.replace(world.settings, since_ms=START_MS + 1)
    world.run()
    assert set(world.table) == {name_of(START_MS + minutes * 60_000) for minutes in (90, 100)}
    world.settings = dataclasses.replace(world.settings, since_ms=None)
    world.run()
    assert world.counted() == world.expected()


def test_windows_that_retention_took_events_of_stay_as_they_are(world: World) -> None:
    world.log([0, 5, 58])
    world.log([200])
    world.log([300], agent=1)
    world.run()
    before = world.table
    for path in (world.folder / "a1").rglob("*.parquet"):
        if "hour=00" in str(path):
            os.utime(path, (0, 0))
    world.now_ms += 1_000
    world.keeper(retain_ms=3_650 * 86_400_000).turn()
    assert world.run() == []
    assert "no longer has these hours: 2026-01-01T00:00:00Z/2026-01-01T01:00:00Z" in world.said[0]
    assert world.table == before
    # What comes late for such a window is not counted alone.
    world.log([5, 205])
    world.run()
    changed = {name for name, row in world.table.items() if before.get(name) != row}
    assert changed == {name_of(START_MS + minutes * 60_000) for minutes in (190, 200)}


def test_a_file_that_was_set_aside_is_counted_no_longer(world: World) -> None:
    world.log([0])
    world.log([45], agent=1)
    world.log([40, 45])
    world.run()
    # The agent goes back to the checkpoint before the last one, and reads its lines anew.
    world.archives[0] = Archive(world.folder / "a1", "clicks", "web-1", rows_max=1_000)
    world.archives[0].recover(2)
    world.run()
    assert world.counted() == world.expected() and len(world.table) == 4
    world.log([40])
    world.run()
    assert world.counted() == world.expected()


def test_an_archive_that_is_left_out_is_an_error(world: World) -> None:
    world.log([0])
    world.log([0], agent=1)
    world.run()
    before = world.table
    world.settings = dataclasses.replace(world.settings, archives=[world.folder / "a1"])
    with pytest.raises(OfflineError, match="has events of web-2, and no folder given has any file of theirs"):
        world.run()
    assert world.table == before


def test_files_that_go_while_windows_are_computed_are_looked_for_again(world: World) -> None:
    world.log([0])
    world.log([1])
    world.log([2], agent=1)

    def remove() -> None:
        world.meanwhile = lambda: None
        for path in (world.folder / "a1").rglob("web-1-0000000002-*.parquet"):
            path.unlink()
            raise OfflineError("Spark could not finish: file not found")

    world.meanwhile = remove
    world.run()
    assert world.counted() == world.expected()


def test_an_error_that_is_no_ones_removal_is_told(world: World) -> None:
    world.log([0])
    world.log([0], agent=1)

    def fail() -> None:
        raise OfflineError("executors were lost")

    world.meanwhile = fail
    with pytest.raises(OfflineError, match="executors were lost"):
        world.run()
    world.meanwhile = lambda: None
    world.run()
    assert world.counted() == world.expected()


def test_events_of_many_years_touch_their_own_hours(world: World) -> None:
    """One batch of more hours than an agent opens files for: the last ones, a century apart, share a file."""
    world.now_ms += 365 * 24 * HOUR_MS
    world.log([0], agent=1)
    world.log([60.0 * hour for hour in range(-50, 1)] + [60 * 24 * 365 * 100])
    done = world.run()
    assert len(world.table) == 2 * 51
    assert sum(one.windows for one in done) < 6 * 55


def test_a_damaged_file_of_events_of_many_hours_is_named(world: World) -> None:
    world.log([24 * 60 * day for day in range(-3_000, 0, 50)])
    (damaged,) = (path for path in (world.folder / "a1").rglob("*.parquet") if MIXED in str(path))
    damaged.write_bytes(b"x" * 1_000)
    with pytest.raises(DamagedFileError, match=f"^{damaged} cannot be read: "):
        world.run()


def test_a_column_that_nobody_has_is_named(world: World) -> None:
    world.job = dataclasses.replace(JOB, query="SELECT path, count(*) AS n FROM clicks GROUP BY path")
    world.log([0])
    world.log([0], agent=1)
    with pytest.raises(JobSpecError, match="no column 'path' yet"):
        world.run()


def test_a_column_that_became_wider_is_not_cut(world: World) -> None:
    world.job = dataclasses.replace(JOB, query="SELECT sum(bytes) AS n FROM clicks GROUP BY window(ts, '20 minutes')")
    world.log([0], bytes=pl.Int32)
    world.log([0], agent=1)
    world.run()
    world.log([5], bytes=pl.Int64)
    with pytest.raises(OfflineError, match=r"column 'bytes' as INT, and it is BIGINT by now, first in .*000003"):
        world.run()
    world.job = dataclasses.replace(world.job, columns={"bytes": "INT"})
    assert len(world.run()) == 1
    world.job = dataclasses.replace(world.job, columns={"bytes": "BIGINT"})
    with pytest.raises(OfflineError, match="as INT, and the job now declares it as BIGINT"):
        world.run()


def test_a_copy_of_an_archive_is_not_counted_twice(world: World) -> None:
    world.log([0])
    world.log([0], agent=1)
    shutil.copytree(world.folder / "a1", world.folder / "copy")
    archives = [*world.settings.archives, world.folder / "copy"]
    world.settings = dataclasses.replace(world.settings, archives=archives)
    with pytest.raises(OfflineError, match="is in another archive, too"):
        world.run()


def test_a_total_is_computed_anew_and_stops_where_events_are_gone(tmp_path: Path) -> None:
    world = World(tmp_path, TOTAL)
    world.log([0, 1, 2])
    world.log([3], agent=1)
    world.run()
    assert world.counted() == {"top": 4}
    assert world.run() == []
    world.log([200])
    world.run()
    assert world.counted() == {"top": 5}
    for path in (world.folder / "a1").rglob("*hour=00/*.parquet"):
        path.unlink()
    world.now_ms += 100 * 365 * 86_400_000
    world.keeper(retain_ms=1).turn()
    assert world.run() == []
    assert world.counted() == {"top": 5} and "its total stops here; use --since" in world.said[0]


def test_a_trigger_looks_again_until_interrupted(world: World) -> None:
    slept: list[float] = []
    world.log([0])
    world.log([0], agent=1)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        world.now_ms += round(seconds * 1_000)
        world.log([100 + len(slept)])
        if len(slept) == 3:
            raise KeyboardInterrupt

    done: list[Done] = []
    settings = dataclasses.replace(world.settings, trigger_ms=30_000)
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(JOB, settings, compute=world.compute, done=done.append, now_ms=lambda: world.now_ms, sleep=sleep)
    assert slept == [30, 30, 30] and len(done) == 3
    world.run()
    assert world.counted() == world.expected()


@pytest.mark.parametrize("job", [JOB, TOTAL], ids=["windows", "total"])
def test_a_crash_between_any_two_steps_leaves_nothing_wrong(
    tmp_path: Path, job: PipelineJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each crash comes at another operation; then files come and go before the next run."""
    disk, step = Disk(monkeypatch), 0
    while True:
        step += 1
        world = World(tmp_path / str(step), job)
        world.log([0, 15])
        world.log([5], agent=1)
        world.run()
        world.log([12, 50])
        disk.left = step
        try:
            world.run()
        except disk.Crash:
            crashed = True
        else:
            crashed = False
        disk.left = -1
        # Whatever of the last file was counted is counted no more: it was never committed.
        world.archives[0] = Archive(world.folder / "a1", "clicks", "web-1", rows_max=1_000)
        world.archives[0].recover(2)
        world.log([13])
        world.run()
        assert world.counted() == (world.expected() if job is JOB else {"top": 4})
        assert not list((world.folder / "out/.elf").rglob("staging-*"))
        if not crashed:
            break
    assert step >= 10
