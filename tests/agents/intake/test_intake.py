"""The loop around a pump: while a job's tree is congested the source is not read, and nothing of it is lost."""

import asyncio
import collections
import itertools
import pathlib
from collections.abc import Callable, Iterable

import polars as pl
import pytest

from elf.agents.archive.archive import Archive
from elf.agents.intake.decoder import Decoder
from elf.agents.intake.intake import Intake
from elf.agents.intake.pace import BUSY_S, POLL_S
from elf.agents.intake.pump import Pump
from elf.agents.intake.pump_settings import PumpSettings
from elf.agents.intake.push import PushLog
from elf.agents.intake.source_checkpoints import Sealed
from elf.agents.settings.config import PrivacySection
from elf.agents.sources.dictionaries import Dictionaries
from elf.agents.sources.files.tail import Tail
from elf.agents.sources.format import make_format
from elf.agents.sources.privacy.redaction import Redactor
from elf.agents.sources.rejected import RejectedLines
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.store.database import Database
from elf.agents.worker.worker import Worker
from elf.overlay.contract import Verdict
from tests.agents.plain_clock import PlainClock
from tests.agents.plans import COLUMNS, opened, plan_of
from tests.overlay.cluster import wait_until

PLAN = plan_of()
TREE = PLAN.definition.app_id
BASE_MS = 1_767_225_600_000
#: Bytes read in one step: some 15 intervals' lines, so that a rest comes between steps.
CHUNK_BYTES = 1 << 16
LINES = 6_000
PADDING = "x" * 200
NO_ARCHIVE: Archive | None = None
REDACTOR = Redactor(PrivacySection())
DECODER = Decoder(make_format("json"), COLUMNS, REDACTOR, Dictionaries(REDACTOR.texts))


def make_pump(
    folder: pathlib.Path,
    checkpoints: Checkpoints,
    *,
    logs: str = "*.log",
    now_ms: Callable[[], int] = lambda: BASE_MS,
    chunk_bytes: int = CHUNK_BYTES,
    checkpoint_ms: int = 1,
) -> Pump:
    return Pump(
        PumpSettings(source="clicks", chunk_bytes=chunk_bytes, checkpoint_ms=checkpoint_ms),
        Tail(str(folder / logs)), DECODER, checkpoints, NO_ARCHIVE,
        RejectedLines(folder / "rejected" / "s.txt"), PlainClock(now_ms),
    )  # fmt: skip


class SlowTree:
    """Stands for the overlay: takes snapshots, and is congested while more than `bound` of them have no verdict."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.sealed: list[Sealed] = []
        self.settled = 0
        self.most = 0

    def take(self, one: Sealed) -> None:
        self.sealed.append(one)
        self.most = max(self.most, len(self.sealed) - self.settled)

    def congested(self, trees: Iterable[bytes]) -> bool:
        return TREE in trees and len(self.sealed) - self.settled > self.bound

    def rows(self) -> int:
        payloads = [one.snapshot.payload for one in self.sealed if one.snapshot.payload is not None]
        return sum(sum(opened(payload, PLAN)[1]["a0_n"]) for payload in payloads)


async def test_a_congested_tree_stops_the_source_and_later_everything_arrives(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.log"
    times = [BASE_MS + number * 100 for number in range(LINES)]
    log.write_text("".join(f'{{"ts":{ts},"product":"p","cents":1,"padding":"{PADDING}"}}\n' for ts in times))
    clock = itertools.count(BASE_MS + 10_000_000)
    database = Database(tmp_path / "state" / "state.db")
    pump = make_pump(tmp_path, Checkpoints(database), now_ms=lambda: next(clock))
    tree = SlowTree(bound=20)
    push = PushLog(tmp_path / "spool" / "s.ndjson")
    intake = Intake(pump, push, tree.take, tree.congested)
    await intake.attach(Worker(PLAN, "w1", new=True))
    intake.start()
    try:
        await wait_until(lambda: intake.resting)
        read, sealed = pump.counters.read, len(tree.sealed)
        assert 0 < read < LINES
        loops: collections.Counter[str] = collections.Counter()
        checkpoint = pump.checkpoint

        def counted(*, force: bool = False) -> object:
            loops["turns"] += 1
            return checkpoint(force=force)

        monkeypatch.setattr(pump, "checkpoint", counted)
        await wait_until(lambda: loops["turns"] >= 3)
        assert pump.counters.read == read, "three more turns, and no line more was read"
        assert len(tree.sealed) == sealed, "what waits does not grow while it rests"
        async with asyncio.timeout(20):
            while pump.counters.read < LINES:
                tree.settled = len(tree.sealed)
                await intake.settle(TREE, Verdict(-1, tree.sealed[-1].snapshot.through, False))
                await asyncio.sleep(0.01)
        most, tree.bound = tree.most, LINES
        await wait_until(lambda: tree.sealed[-1].snapshot.through >= times[-1] // 2_000)
        assert tree.rows() == LINES, "every line is in exactly one snapshot"
        assert most < LINES // 20 // 2, "what waits is the bound and what is read between two checkpoints"
    finally:
        await intake.stop()
        push.close()
        database.close()


@pytest.mark.parametrize("error", [pl.exceptions.PanicException("no"), asyncio.CancelledError(), KeyError("x")])
async def test_whatever_ends_a_source_is_told(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    database = Database(tmp_path / "state" / "state.db")
    pump = make_pump(tmp_path, Checkpoints(database))
    push = PushLog(tmp_path / "spool" / "s.ndjson")
    intake = Intake(pump, push, lambda sealed: None, lambda trees: False)

    def fails() -> bool:
        raise error

    monkeypatch.setattr(pump, "step", fails)
    intake.start()
    try:
        await wait_until(lambda: intake.trouble is not None)
        assert intake.trouble is not None and type(error).__name__ in intake.trouble
    finally:
        await intake.stop()
        push.close()
        database.close()


async def test_lines_that_come_one_by_one_are_read_together(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "clicks.log"
    log.touch()
    database = Database(tmp_path / "state" / "state.db")
    pump = make_pump(tmp_path, Checkpoints(database), chunk_bytes=1 << 20, checkpoint_ms=1_000)
    push = PushLog(tmp_path / "spool" / "s.ndjson")
    intake = Intake(pump, push, lambda one: None, lambda trees: False)
    await intake.attach(Worker(PLAN, "w1", new=True))
    chunks, step = 0, pump.step

    def counted() -> bool:
        nonlocal chunks
        progressed = step()
        chunks += progressed
        return progressed

    pump.step = counted  # type: ignore[method-assign]
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    intake.start()
    try:
        with log.open("ab", 0) as lines:
            for number in range(400):
                lines.write(f'{{"ts":{BASE_MS - number},"product":"p","cents":1}}\n'.encode())
                await asyncio.sleep(0.001)
        await wait_until(lambda: pump.counters.read == 400)
        spent_s = loop.time() - begun_s
        # Now and then twice, to see whether that was all.
        assert chunks <= spent_s / POLL_S + spent_s / BUSY_S + 2
    finally:
        await intake.stop()
        push.close()
        database.close()


async def test_a_push_at_the_moment_of_a_stop_does_not_keep_the_source_running(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state" / "state.db")
    pump = make_pump(tmp_path, Checkpoints(database), checkpoint_ms=1_000)
    push = PushLog(tmp_path / "spool" / "s.ndjson")
    intake = Intake(pump, push, SlowTree(bound=20).take, lambda tree: False)
    try:
        intake.start()
        await wait_until(lambda: intake._wake._waiters)  # type: ignore[attr-defined]
        intake._wake.set()
    finally:
        async with asyncio.timeout(20):
            await intake.stop()
        push.close()
        database.close()


async def test_a_new_worker_is_durable_before_anybody_counts_on_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed right after, the agent goes on with the first line; a disk that fails meanwhile changes nothing."""
    (tmp_path / "a.log").touch()
    database = Database(tmp_path / "state" / "state.db")
    checkpoints = Checkpoints(database)
    pump = make_pump(tmp_path, checkpoints, checkpoint_ms=1_000)
    push = PushLog(tmp_path / "spool" / "s.ndjson")
    intake = Intake(pump, push, SlowTree(bound=20).take, lambda tree: False)
    write = checkpoints.write

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    try:
        await intake.attach(Worker(PLAN, "w1", tree=b"first", new=True))
        first = checkpoints.worker(b"first")
        assert first is not None and first.progress.partial_before is None
        monkeypatch.setattr(checkpoints, "write", full)
        fed = Worker(PLAN, "w1", tree=b"second", new=True)
        with pytest.raises(OSError, match="no space"):
            await intake.attach(fed)
        assert checkpoints.worker(b"second") is None
        with pytest.raises(OSError, match="no space"):
            await intake.attach(Worker(PLAN, "w1", tree=b"third", new=True))
        monkeypatch.setattr(checkpoints, "write", write)
        for tree in (b"third", b"second"):
            await intake.attach(Worker(PLAN, "w1", tree=tree, new=True))
            assert checkpoints.worker(tree) is not None
        assert pump.workers[b"second"] is fed, "what it was given is not lost by asking again"
    finally:
        await intake.stop()
        push.close()
        database.close()


async def test_others_are_told_once_that_nobody_knows_what_lines_are_and_once_that_it_is_known(
    tmp_path: pathlib.Path,
) -> None:
    database = Database(tmp_path / "state" / "state.db")
    pump = make_pump(tmp_path, Checkpoints(database), logs="a.log")
    intake = Intake(pump, PushLog(tmp_path / "spool" / "s.ndjson"), lambda _: None, lambda _: False)
    told: list[bool] = []
    intake.start(lambda: told.append(pump.is_format_open))
    await intake.stop()
    for is_open in (False, True, True, False, False):
        pump.is_format_open = is_open
        intake._note_format()
    assert told == [True, False]
    database.close()


async def test_a_file_out_of_sight_is_told_once_and_so_is_its_return(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(tmp_path / "state" / "state.db")
    path = tmp_path / "a.log"
    pump = make_pump(tmp_path, Checkpoints(database), logs="a.log")
    intake = Intake(pump, PushLog(tmp_path / "spool" / "s.ndjson"), lambda _: None, lambda _: False)
    caplog.set_level("INFO", "elf.agents.intake.intake")
    for there in (False, False, True, True):
        if there:
            path.touch()
        pump.tail.read(CHUNK_BYTES)
        intake._note_troubles(pump.tail.troubles)
    gone, back = [record.getMessage() for record in caplog.records]
    assert f"no file matches {path}" in gone
    assert back == f"source clicks: mended, it goes on (was: no file matches {path})"
    database.close()
