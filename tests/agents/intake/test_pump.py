"""The pump: checkpoints that survive a crash at any point, watermarks that do not run ahead of any log."""

import collections
import contextlib
import dataclasses
import pathlib
import sqlite3
import tempfile
from collections.abc import Iterator
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import elf.agents.host.clock
from elf.agents.archive.archive import Archive, list_files
from elf.agents.errors import UnavailableError
from elf.agents.intake.decoder import Decoder
from elf.agents.intake.progress import SourceProgress
from elf.agents.intake.pump import Pump
from elf.agents.intake.pump_settings import PumpSettings
from elf.agents.intake.source_checkpoints import Sealed
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.language.types import SqlType
from elf.agents.settings.config import PrivacySection
from elf.agents.sources.counters import Counters
from elf.agents.sources.dictionaries import Dictionaries
from elf.agents.sources.files import readers
from elf.agents.sources.files.readers import Reader
from elf.agents.sources.files.tail import Tail
from elf.agents.sources.format import make_format
from elf.agents.sources.privacy.redaction import Redactor
from elf.agents.sources.rejected import RejectedLines
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.store.database import Database
from elf.agents.worker.paos import has_tables
from elf.agents.worker.state import Progress
from elf.agents.worker.worker import Worker
from elf.cbt import INTERVAL
from elf.overlay.contract import NEVER, Verdict
from tests.agents.plain_clock import PlainClock
from tests.agents.plans import COLUMNS, opened, plan_of
from tests.agents.sources.files.tailing import FakeSpool

PLAN = plan_of()
#: Times in these tests count from here; a whole number of intervals after 1970.
BASE_MS = 1_767_225_600_000
NOW_MS = 1_000_000_000


SETTINGS = PumpSettings(source="clicks", chunk_bytes=1 << 16, checkpoint_ms=1_000)
REDACTOR = Redactor(PrivacySection())
DECODER = Decoder(make_format("json"), COLUMNS, REDACTOR, Dictionaries(REDACTOR.texts))


class Clock(PlainClock):
    now_ms = BASE_MS + NOW_MS

    def __init__(self) -> None:
        super().__init__(lambda: self.now_ms)


@dataclasses.dataclass
class Site:
    """One source's pump on a folder, and what it sealed."""

    folder: pathlib.Path
    clock: Clock | elf.agents.host.clock.Clock = dataclasses.field(default_factory=Clock)
    sealed: list[Sealed] = dataclasses.field(default_factory=list)
    archived: bool = False
    format: str = "json"
    ahead_ms_max: int | None = None

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.database = Database(self.folder / "state" / "state.db")
        self.checkpoints = Checkpoints(self.database)
        decoder = DECODER if self.format == "json" else DECODER._replace(format=make_format(self.format))
        tail = Tail(str(self.folder / "*.log"))
        rejected = RejectedLines(self.folder / "rejected" / "s.txt")
        clock = self.clock
        archive = Archive(self.folder / "archive", "clicks", "w1", rows_max=1_000) if self.archived else None
        self.pump = Pump(
            dataclasses.replace(SETTINGS, ahead_ms_max=self.ahead_ms_max), tail, decoder, self.checkpoints, archive,
            rejected, clock,
        )  # fmt: skip
        state = self.checkpoints.worker(PLAN.definition.app_id)
        worker = Worker(PLAN, "w1", new=True) if state is None else Worker.restore(PLAN, "w1", state)
        self.pump.attach(worker)

    def crash_and_restart(self) -> None:
        """Lose everything in memory; what was sealed durably is handed over again, as the runtime does."""
        self.database.close()
        self.start()
        state = self.checkpoints.worker(PLAN.definition.app_id)
        self.sealed = [Sealed(PLAN.definition.app_id, snapshot) for snapshot in state.sealed] if state else []

    def write(self, *lines: tuple[int, str], name: str = "a.log") -> None:
        with (self.folder / name).open("a") as file:
            for ts_ms, product in lines:
                file.write(f'{{"ts":{BASE_MS + ts_ms},"product":"{product}","cents":1}}\n')

    def run(self) -> None:
        while self.pump.step():
            self.sealed += self.pump.checkpoint()
        self.sealed += self.pump.checkpoint(force=True)

    def rows(self) -> dict[tuple[int, str], int]:
        total: collections.Counter[tuple[int, str]] = collections.Counter()
        for one in self.sealed:
            if one.snapshot.payload is not None:
                for row in opened(one.snapshot.payload, PLAN)[1].to_dicts():
                    total[row[INTERVAL] - BASE_MS // 2_000, row["k0"]] += row["a0_n"]
        return dict(total)


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.database.close()


def test_what_a_log_was_rotated_to_before_is_a_gap_up_to_its_first_event(site: Site) -> None:
    site.write((1_000, "a"), name="a.log.1")
    site.write((5_000, "b"), (7_000, "c"))
    site.run()
    assert site.rows() == {(2, "b"): 1, (3, "c"): 1}
    (gap,) = [gap for one in site.sealed if one.snapshot.payload for gap in opened(one.snapshot.payload, PLAN)[0].gaps]
    assert gap[0] <= 0 and gap[1] - BASE_MS // 2_000 == 2, "the interval of its first event, and all before"


def test_that_a_log_has_begun_late_outlasts_a_crash_before_its_first_event(site: Site) -> None:
    site.write((1_000, "a"), name="a.log.1")
    (site.folder / "a.log").touch()
    site.run()
    site.crash_and_restart()
    site.write((5_000, "b"))
    site.clock.now_ms += 60_000
    site.run()
    gaps = [gap for one in site.sealed if one.snapshot.payload for gap in opened(one.snapshot.payload, PLAN)[0].gaps]
    assert [last - BASE_MS // 2_000 for _, last in gaps] == [2] and site.rows() == {(2, "b"): 1}


def test_lines_become_sealed_snapshots_once_the_source_is_idle(site: Site) -> None:
    site.write((1_000, "a"), (1_500, "a"), (3_000, "b"))
    site.run()
    assert site.rows() == {(0, "a"): 2, (1, "b"): 1}
    assert site.sealed[-1].snapshot.through == (BASE_MS + NOW_MS) // 2_000 - 1, (
        "an idle source closes intervals up to the clock"
    )
    assert site.pump.counters == Counters(read=3, parsed=3)


def test_a_crash_between_checkpoints_reads_again_exactly_what_was_not_saved(site: Site) -> None:
    site.write((NOW_MS - 10_000, "a"), (NOW_MS - 100, "b"))
    site.run()
    site.write((NOW_MS, "c"))
    assert site.pump.step()
    site.crash_and_restart()
    site.clock.now_ms += 60_000
    site.run()
    assert sorted(site.rows().values()) == [1, 1, 1]
    assert site.pump.counters == Counters(read=3, parsed=3)


def test_a_header_reaches_rows_behind_a_crash_and_in_a_file_that_is_begun_anew(tmp_path: pathlib.Path) -> None:
    site, log = Site(tmp_path, format="csv"), tmp_path / "a.log"

    def row(ts_ms: int, *others: object) -> str:
        return ",".join(map(str, (BASE_MS + ts_ms, *others))) + "\n"

    log.write_text("ts,product,cents\n" + row(1_000, "a", 1))
    site.run()
    assert site.pump.counters == Counters(read=2, parsed=1, headers=1)
    with log.open("a") as file:
        file.write(row(NOW_MS - 5_000, "b", 1) + "time,cents,product\nts,cents,product\n" + row(NOW_MS, 1, "c"))
    assert site.pump.step()
    site.crash_and_restart()
    site.run()
    # Copied away, and begun anew with other columns.
    (tmp_path / "a.log.1").write_bytes(log.read_bytes())
    log.write_text("product,ts\n")
    site.run()
    with log.open("a") as file:
        file.write(f"d,{BASE_MS + NOW_MS}\n")
    site.clock.now_ms += 60_000
    site.run()
    assert sorted(product for _, product in site.rows()) == ["a", "b", "c", "d"]
    # A header may call the time what it likes, of what is known for it; the next one comes at once here.
    assert site.pump.counters == Counters(read=8, parsed=4, headers=4)
    assert site.pump.counters.balanced
    site.database.close()


def test_a_checkpoint_that_cannot_be_written_is_tried_again_before_anything_else(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.write((1_000, "a"))
    site.pump.step()
    site.pump.step()
    with monkeypatch.context() as patch:

        def full(*_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        patch.setattr(site.checkpoints, "write", full)
        with pytest.raises(sqlite3.OperationalError):
            site.pump.checkpoint(force=True)
        site.write((2_000, "b"))
        assert not site.pump.step(), "nothing is read past a checkpoint that is not written"
    site.sealed += site.pump.checkpoint()
    site.clock.now_ms += 2_000
    site.run()
    assert site.rows() == {(0, "a"): 1, (1, "b"): 1}


def test_a_missed_snapshot_is_carried_in_the_same_checkpoint_that_forgets_it(site: Site) -> None:
    site.write((1_000, "a"))
    site.run()
    through = site.sealed[-1].snapshot.through
    site.pump.settle(PLAN.definition.app_id, Verdict(NEVER, through, missing=True))
    site.sealed.clear()
    site.run()
    site.crash_and_restart()
    assert site.sealed == [], "the snapshot is forgotten ..."
    site.clock.now_ms += 10_000
    site.run()
    assert site.rows() == {(0, "a"): 1}, "... and its rows ride in the next one"


def test_a_missing_run_carries_only_its_own_snapshots(site: Site) -> None:
    #   snapshots   through t1: "a"    through t2: "b"
    #   verdicts    (.., t1] counted   (t1, t2] missing     both before the next checkpoint
    throughs = []
    for product in "ab":
        site.write((site.clock.now_ms - BASE_MS - 5_000, product))
        site.run()
        throughs.append(site.sealed[-1].snapshot.through)
        site.clock.now_ms += 10_000
    app = PLAN.definition.app_id
    site.pump.settle(app, Verdict(NEVER, throughs[0], missing=False))
    site.pump.settle(app, Verdict(throughs[0], throughs[1], missing=True))
    site.sealed.clear()
    site.run()
    site.clock.now_ms += 10_000
    site.run()
    assert [product for _, product in site.rows()] == ["b"], "a is in a commit: carrying it would count it twice"


def test_a_truncated_log_marks_all_intervals_that_may_have_lost_lines(site: Site) -> None:
    site.write((NOW_MS - 20_000, "a"), (NOW_MS - 19_000, "a"))
    site.run()
    (site.folder / "a.log").write_text("")
    site.write((NOW_MS + 1_000, "b"))
    site.clock.now_ms += 10_000
    site.sealed.clear()
    site.run()
    notes = [opened(one.snapshot.payload, PLAN)[0] for one in site.sealed if one.snapshot.payload]
    base, now = BASE_MS // 2_000, NOW_MS // 2_000
    assert [gap for note in notes for gap in note.gaps] == [(base + now - 10, base + now + 5)]


def test_the_watermark_waits_for_the_log_that_is_furthest_behind(site: Site) -> None:
    #   a.log   0 s .................... 200 s      both are read in turn, a chunk each:
    #   b.log   0 s .................... 200 s      no event of b.log may count as late because a.log was read first
    for name in ("a.log", "b.log"):
        site.write(*((ts_ms, name[0]) for ts_ms in range(0, 200_000, 40)), name=name)
    site.run()
    rows = site.rows()
    assert all(rows[interval, name] == 50 for interval in range(100) for name in "ab")
    late = sum(opened(one.snapshot.payload, PLAN)[0].late for one in site.sealed if one.snapshot.payload)
    assert late == 0


def test_a_log_from_the_future_does_not_close_intervals_ahead_of_the_clock(site: Site) -> None:
    site.write((NOW_MS - 9_000, "a"), (NOW_MS + 10**9, "x"), (NOW_MS - 8_000, "a"), (NOW_MS, "b"))
    site.pump.step()
    site.sealed += site.pump.checkpoint(force=True)
    assert site.sealed[-1].snapshot.through == (BASE_MS + NOW_MS) // 2_000 - 1
    site.write((NOW_MS + 1, "c"))
    site.clock.now_ms += 2_000
    site.run()
    assert site.rows() == {
        (NOW_MS // 2_000 - 5, "a"): 1,
        (NOW_MS // 2_000 - 4, "a"): 1,
        (NOW_MS // 2_000, "b"): 1,
        (NOW_MS // 2_000, "c"): 1,
    }


def test_a_worker_attached_in_the_middle_knows_from_where_on_it_has_everything(site: Site) -> None:
    site.write((4_500, "a"))
    site.run()
    plan = plan_of("SELECT count(*) AS n FROM clicks GROUP BY window(ts, '2 seconds')")
    other = Worker(plan, "w1", tree=b"other", new=True)
    site.pump.attach(other)
    assert other.progress.partial_before == BASE_MS // 2_000 + 3
    place = site.pump.saved_place(str(site.folder / "a.log"))
    assert place is not None and place.offset == (site.folder / "a.log").stat().st_size


def test_who_begins_at_the_end_of_a_log_lacks_what_was_written_before_by_any_version(site: Site) -> None:
    """Though no line was read: intervals may have become others since it began."""
    version = Version(number=2, definition=PLAN.definition, what="reset", since=1, begins=1, pao_kind=2)
    versions = Versions([*Versions.of(PLAN).all, Compiled(version, PLAN)])
    site.pump.change(PLAN.definition.app_id, versions)
    (worker,) = site.pump.workers.values()
    assert worker.progress.since == {2: 1}, "nothing was ever there"
    site.pump.from_end = True
    site.pump.change(
        PLAN.definition.app_id, Versions([*versions.all, Compiled(replace(version, number=3, pao_kind=3), PLAN)])
    )
    assert worker.progress.since[3] == (BASE_MS + NOW_MS) // 2_000 + 1


def test_rejected_lines_are_kept_with_the_reason(site: Site) -> None:
    (site.folder / "a.log").write_text('nonsense\n{"ts":1767225600000,"product":"a","cents":1}\n')
    site.run()
    assert site.pump.counters == Counters(read=2, parsed=1, rejected=1)
    assert "nonsense" in (site.folder / "rejected" / "s.txt").read_text()


def test_events_too_far_ahead_of_the_clock_are_rejected_and_open_no_interval(tmp_path: pathlib.Path) -> None:
    site = Site(tmp_path, ahead_ms_max=60_000)
    site.write((NOW_MS, "now"), (NOW_MS + 60_000, "soon"), (NOW_MS + 60_001, "later"), (NOW_MS * 2, "much later"))
    site.run()
    assert site.pump.counters == Counters(read=4, parsed=2, rejected=2, ahead=2)
    assert (tmp_path / "rejected" / "s.txt").read_text().count("time:ahead\t") == 2
    notes = [opened(one.snapshot.payload, PLAN)[0] for one in site.sealed if one.snapshot.payload is not None]
    assert sum(each.rejected for each in notes) == 2, "labels say so"
    (worker,) = site.pump.workers.values()
    assert max(worker.open) <= (BASE_MS + NOW_MS + 60_000) // 2_000
    site.clock.now_ms += 60_000  # what has been rejected stays so, what comes now is judged by now
    site.write((NOW_MS + 60_001, "later"))
    site.run()
    assert site.pump.counters.parsed == 3
    site.database.close()


def test_very_many_open_intervals_outlast_crashes_each_event_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elf.agents.worker.scattered.FRESH_ROWS", 100)
    ahead = [(NOW_MS + 2_000 * at, f"p{at % 3}") for at in range(1, 600)]
    site.write((NOW_MS, "now"), *ahead)
    site.pump.step()
    assert all(one.snapshot.payload is None for one in site.pump.checkpoint(force=True)), "nothing is over yet"
    state = site.checkpoints.worker(PLAN.definition.app_id)
    assert state is not None and has_tables(state.open_block)
    whole = site.checkpoints.whole("clicks", [PLAN.definition.app_id])
    assert whole is not None and whole.workers[0].open_block == state.open_block, "what neighbours keep has all rows"
    sealed: list[Sealed] = []
    for after_ms in (100_000, 300_000, 2_000_000):
        site.crash_and_restart()
        site.write((NOW_MS + 100, "again"))
        site.clock.now_ms = BASE_MS + NOW_MS + after_ms
        site.sealed = []
        site.run()
        sealed += site.sealed
    site.sealed = sealed
    first = NOW_MS // 2_000
    counted = {(first + at, f"p{at % 3}"): 1 for at in range(1, 600)}
    assert site.rows() == {(first, "now"): 1, (first, "again"): 3, **counted}
    state = site.checkpoints.worker(PLAN.definition.app_id)
    assert state is not None and not has_tables(state.open_block)
    with site.database.transaction() as sql:
        assert sql.execute("SELECT count(*) FROM open_tables").fetchone() == (0,), "none is left behind"


def test_a_log_out_of_sight_holds_the_watermark_and_says_why(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_reader(path: str) -> Reader:
        if path.endswith("a.log"):
            raise PermissionError(13, "Permission denied")
        return readers.open_reader(path)

    site.run()
    assert site.sealed == []
    assert site.pump.troubles == [f"no file matches {site.folder}/*.log"]
    monkeypatch.setattr("elf.agents.sources.files.followed.open_reader", open_reader)
    (site.folder / "a.log").touch()
    site.write((1_000, "b"), name="b.log")
    site.run()
    assert site.sealed == [], "an unreadable log may hold events of any interval"
    assert site.pump.troubles == [f"{site.folder}/a.log: Permission denied"]
    (site.folder / "a.log").unlink()
    site.run()
    assert site.rows() == {(0, "b"): 1}
    assert site.pump.troubles == []


def test_a_folder_beside_the_logs_holds_no_watermark(site: Site) -> None:
    (site.folder / "a.log").mkdir()
    site.write((1_000, "b"), name="b.log")
    site.run()
    assert site.rows() == {(0, "b"): 1}
    assert site.pump.troubles == []


def test_a_full_disk_for_rejected_lines_does_not_cost_the_chunk_they_came_in(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RejectedLines, "keep", full)
    site.write((1_000, "a"))
    with (site.folder / "a.log").open("a") as file:
        file.write("nonsense\n")
    site.run()
    assert site.rows() == {(0, "a"): 1}
    assert site.pump.counters == Counters(read=2, parsed=1, rejected=1)


def test_a_clock_that_was_set_back_stops_nothing_and_labels_what_it_lives_through_again(tmp_path: pathlib.Path) -> None:
    hour_ms, machine, interval_ms = 3_600_000, [0, 0], PLAN.interval_ms
    site = Site(tmp_path, elf.agents.host.clock.Clock(lambda: BASE_MS + NOW_MS + sum(machine), lambda: machine[1]))
    sealed: list[int] = []

    def pass_ms(count: int) -> None:
        machine[1] += count
        site.run()
        sealed.append(site.pump.workers[PLAN.definition.app_id].progress.sealed or 0)

    site.write((NOW_MS, "a"))
    pass_ms(10_000)
    machine[0] = hour_ms
    pass_ms(10_000)
    assert sealed[-1] == sealed[0] + 10_000 // interval_ms, "it may be back in a moment"
    pass_ms(elf.agents.host.clock.BELIEVED_MS)
    assert sealed[-1] >= sealed[0] + hour_ms // interval_ms
    machine[0] = 0
    site.write((NOW_MS + 55_000, "late"))
    for _ in range(4):
        pass_ms(2 * interval_ms)
    assert sealed[2:] == [sealed[2] + more for more in range(5)], "snapshots go on leaving"
    notes = [opened(one.snapshot.payload, PLAN)[0] for one in site.sealed if one.snapshot.payload is not None]
    assert sum(note.late for note in notes) == 1
    ((since, until),) = (gap for note in notes for gap in note.gaps)
    assert since <= (BASE_MS + NOW_MS + 50_000) // interval_ms
    assert until >= (BASE_MS + NOW_MS + 50_000 + hour_ms) // interval_ms
    site.crash_and_restart()
    pass_ms(2 * interval_ms)
    assert sealed[-1] == sealed[-2] + 1, "over a restart, too"
    assert list(site.rows().values()) == [1, 1], "each line is in what waits for its verdict, once"
    site.database.close()


def test_a_clock_that_is_ahead_of_others_closes_nothing_before_that_is_known_and_then_goes_by_theirs(
    tmp_path: pathlib.Path,
) -> None:
    machine, ahead_ms, interval_ms = [0, 120_000], 120_000, PLAN.interval_ms
    clock = elf.agents.host.clock.Clock(lambda: BASE_MS + NOW_MS + machine[0] + machine[1], lambda: machine[0])
    clock.is_held = True
    site = Site(tmp_path, clock)

    def sealed_after_ms(count: int) -> int:
        """Look once after a while, and find a line of another machine, and one of this one."""
        machine[0] += count
        site.write((NOW_MS + machine[0], "theirs"), (NOW_MS + sum(machine), "ours"))
        site.pump.step()
        site.sealed += site.pump.checkpoint(force=True)
        return site.pump.workers[PLAN.definition.app_id].progress.sealed or NEVER

    start = (BASE_MS + NOW_MS) // interval_ms
    assert [sealed_after_ms(10_000) for _ in range(3)] == [NEVER] * 3
    clock.heed(BASE_MS + NOW_MS)
    clock.is_held = False
    assert sealed_after_ms(0) == start + 30_000 // interval_ms - 1
    assert sealed_after_ms(10_000) == start + 40_000 // interval_ms - 1
    assert clock.doubt() is elf.agents.host.clock.Doubt.AHEAD
    machine[1] = 0
    assert sealed_after_ms(10_000) == start + 50_000 // interval_ms - 1
    sealed_after_ms(ahead_ms + 10_000)
    site.run()
    notes = [opened(one.snapshot.payload, PLAN)[0] for one in site.sealed if one.snapshot.payload is not None]
    assert [note.gaps for note in notes if note.gaps] == [], "nothing is lived through twice"
    assert sum(note.late for note in notes) == 0
    site.database.close()


def sealed_after_ms(site: Site, machine: list[int], count: int) -> int:
    """Look once after a while, and find a line of the machine's time: how far that is set, and what has passed."""
    machine[1] += count
    site.write((NOW_MS + sum(machine), "a"))
    assert site.pump.step()
    site.sealed += site.pump.checkpoint(force=True)
    return site.pump.workers[PLAN.definition.app_id].progress.sealed or 0


def test_a_clock_that_was_set_forward_stops_nothing_where_lines_never_end(tmp_path: pathlib.Path) -> None:
    hour_ms, machine, interval_ms = 3_600_000, [0, 0], PLAN.interval_ms
    site = Site(tmp_path, elf.agents.host.clock.Clock(lambda: BASE_MS + NOW_MS + sum(machine), lambda: machine[1]))

    before = sealed_after_ms(site, machine, 2 * interval_ms)
    machine[0] = hour_ms
    sealed = [sealed_after_ms(site, machine, interval_ms) for _ in range(2)]
    assert sealed == [before + 1, before + 2], "by the time as it was"
    machine[0] = 0
    assert sealed_after_ms(site, machine, interval_ms) == before + 3, "and that is what it is"
    machine[0] = hour_ms
    for _ in range(elf.agents.host.clock.BELIEVED_MS // interval_ms + 2):
        last = sealed_after_ms(site, machine, interval_ms)
    assert last > before + hour_ms // interval_ms
    site.run()
    notes = [opened(one.snapshot.payload, PLAN)[0] for one in site.sealed if one.snapshot.payload is not None]
    assert sum(note.late for note in notes) == 0 and not any(note.gaps for note in notes)
    site.database.close()


def test_a_clock_that_was_set_back_stops_nothing_where_lines_never_end(tmp_path: pathlib.Path) -> None:
    machine, interval_ms = [0, 0], PLAN.interval_ms
    site = Site(tmp_path, elf.agents.host.clock.Clock(lambda: BASE_MS + NOW_MS + sum(machine), lambda: machine[1]))

    before = sealed_after_ms(site, machine, 10_000)
    machine[0] = -3_600_000
    first, *later = (sealed_after_ms(site, machine, 2 * interval_ms) for _ in range(5))
    assert before <= first and later == [first + n for n in range(1, 5)]
    machine[0] = 0
    sealed = sealed_after_ms(site, machine, 2 * interval_ms)
    assert sealed_after_ms(site, machine, interval_ms) == sealed + 1
    assert sum(site.rows().values()) == 7, "all but the line of the interval that is open"
    site.database.close()


def test_who_takes_over_a_checkpoint_reads_on_behind_it_and_labels_what_is_gone(site: Site) -> None:
    """One log is still there, the other one went with the disk, after the checkpoint was copied."""
    site.clock.now_ms += 1_500
    site.write((NOW_MS - 500, "a"), (NOW_MS + 1_000, "b"))
    site.write((NOW_MS + 1_100, "gone"), name="gone.log")
    site.run()
    assert site.rows() == {(NOW_MS // 2_000 - 1, "a"): 1}, "the others are open"
    whole = site.checkpoints.whole("clicks", [PLAN.definition.app_id])
    assert whole is not None
    site.write((NOW_MS + 1_200, "lost"), name="gone.log")
    site.write((NOW_MS + 1_300, "c"))
    (site.folder / "gone.log").unlink()
    site.database.close()
    (site.folder / "state" / "state.db").unlink()

    site.sealed, site.clock.now_ms = [], BASE_MS + NOW_MS + 8_500
    site.start()
    site.pump.detach(PLAN.definition.app_id)
    open_only = msgspec.structs.replace(whole.workers[0], sealed=())
    site.pump.adopt(whole.source, [Worker.restore(PLAN, "w2", open_only)])
    assert site.pump.counters.read == 3
    site.run()
    interval = NOW_MS // 2_000
    assert site.rows() == {(interval, "b"): 1, (interval, "gone"): 1, (interval, "c"): 1}
    notes = [opened(one.snapshot.payload, PLAN)[0] for one in site.sealed if one.snapshot.payload]
    first = BASE_MS // 2_000 + interval
    assert [gap for each in notes for gap in each.gaps] == [(first, first + 4)], "from what is copied until now"

    site.crash_and_restart()
    assert site.pump.counters.read == 4, "it is its own checkpoint now"


def test_a_successor_on_a_new_disk_labels_the_pushed_lines_that_its_predecessor_had(tmp_path: pathlib.Path) -> None:
    for name, is_pushed, gaps in (("pushed", True, 1), ("tailed", False, 0)):
        folder = tmp_path / name
        folder.mkdir()
        log, clock = folder / "clicks.log", Clock()
        with contextlib.closing(Database(folder / "state.db")) as database:
            spool = FakeSpool(lambda log=log: log.stat().st_size)  # type: ignore[misc]
            tail = Tail(str(log), spools={str(log): spool} if is_pushed else {})
            rejected, checkpoints = RejectedLines(folder / "rejected.txt"), Checkpoints(database)
            pump = Pump(
                SETTINGS,
                tail,
                DECODER,
                checkpoints,
                None,
                rejected,
                clock,
            )
            counted = clock() // PLAN.interval_ms - 3
            worker = Worker(PLAN, "w2", Progress(counted=counted), new=True)
            pump.attach(worker)
            # Late by a minute: it was not there when the disk was lost.
            log.write_text(f'{{"ts":{clock() - 60_000},"product":"a","cents":1}}\n')
            assert pump.step()
            assert len(worker.progress.gaps) == gaps


def test_it_is_behind_while_other_logs_wait_or_chunks_are_large(site: Site) -> None:
    site.write((0, "p"), name="a.log")
    site.write((0, "p"), name="b.log")
    found = []
    while site.pump.step():
        found.append(site.pump.is_behind)
    assert found == [True, False], "the second log waits after the first step, and nothing after the second"
    site.write(*((number, "p" * 100) for number in range(500)))
    assert site.pump.step() and not site.pump.is_behind, "after a large chunk there is another look"
    site.write(*((number, "p" * 100) for number in range(2_000)))
    assert site.pump.step() and site.pump.is_behind, "as much as is read in a step is not all"
    while site.pump.step():
        pass
    assert site.pump.counters.read == 2_502
    site.write((0, "p"))
    assert site.pump.step() and not site.pump.is_behind


def test_lines_of_several_chunks_and_logs_are_taken_in_a_step(site: Site) -> None:
    """Each log's own front decides how far time is, whatever else was read in the step."""
    site.write(*((number * 500, "p" * 100) for number in range(600)), name="a.log")
    site.write(*((number * 500 + 100_000, "q" * 100) for number in range(300)), name="b.log")
    assert site.pump.step() and site.pump.counters.read == 900
    assert site.pump.watermark_ms() == BASE_MS + 249_500
    site.run()
    assert sum(site.rows().values()) == 900


def test_a_failing_read_takes_nothing_with_it_that_was_read_before(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.write(*((number, "p" * 100) for number in range(1_000)))
    read, reads = site.pump.tail.read, []

    def failing(bytes_max: int) -> object:
        reads.append(bytes_max)
        if len(reads) % 2 == 0:
            raise OSError("a disk that fails")
        return read(bytes_max)

    monkeypatch.setattr(site.pump.tail, "read", failing)
    assert site.pump.step() and 0 < site.pump.counters.parsed < 1_000
    before = site.pump.counters.parsed
    reads.append(0)
    with pytest.raises(OSError, match="a disk that fails"):
        site.pump.step()
    site.pump.checkpoint(force=True)
    assert site.pump.counters.parsed == before
    monkeypatch.undo()
    site.run()
    assert sum(site.rows().values()) == 1_000 and site.pump.counters == Counters(read=1_000, parsed=1_000)


@pytest.mark.parametrize("failure", [MemoryError, KeyError, OSError])
def test_what_has_failed_in_the_middle_is_never_durable(
    site: Site, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    """Also not because another job is taken up, or the agent stops: the next start reads the lines again."""

    def failing(*_: object) -> None:
        raise failure

    site.write(*((number, "p") for number in range(100)))
    with monkeypatch.context() as patch:
        patch.setattr(site.pump.workers, "insert", failing)
        with pytest.raises(failure):
            site.pump.step()
    site.pump.attach(Worker(plan_of(), "w1", tree=b"other", new=True))
    for _ in range(2):
        with pytest.raises(UnavailableError, match="source clicks has failed in the middle of some lines: restart"):
            site.pump.checkpoint(force=True)
        with pytest.raises(UnavailableError, match="restart the agent"):
            site.pump.step()
    site.crash_and_restart()
    site.run()
    assert sum(site.rows().values()) == 100 and site.pump.counters == Counters(read=100, parsed=100)


def test_what_has_failed_in_the_middle_of_what_waited_is_never_durable(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise MemoryError

    site.run()
    site.write((NOW_MS, "p"))
    assert site.pump.step()
    site.clock.now_ms += 60_000
    with monkeypatch.context() as patch:
        patch.setattr(Plan, "mapped", failing)
        with pytest.raises(MemoryError):
            site.pump.checkpoint()
    for _ in range(2):
        with pytest.raises(UnavailableError, match="restart the agent"):
            site.pump.checkpoint(force=True)
    site.crash_and_restart()
    site.run()
    assert site.pump.counters.parsed == 1 and sum(site.rows().values()) == 1


def test_jobs_map_once_for_a_checkpoint_however_often_lines_are_found(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped: list[int] = []
    mapping = Plan.mapped

    def counted(plan: Plan, frame: pl.DataFrame) -> pl.DataFrame:
        mapped.append(frame.height)
        return mapping(plan, frame)

    site.write((NOW_MS - 10_000, "p"))
    site.run()
    monkeypatch.setattr(Plan, "mapped", counted)
    for number in range(7):
        site.write((NOW_MS, f"p{number}"))
        assert site.pump.step() and site.pump.checkpoint() == [] and mapped == []
    site.clock.now_ms += SETTINGS.checkpoint_ms
    site.pump.checkpoint()
    assert mapped == [7]
    site.crash_and_restart()
    assert site.pump.counters.parsed == 8, "with all lines whose positions are on disk"
    site.clock.now_ms += 60_000
    site.run()
    assert sum(site.rows().values()) == site.pump.counters.parsed == 8


@given(steps=st.lists(st.sampled_from(["write", "write", "step", "step", "checkpoint", "pass", "kill"]), max_size=25))
@settings(max_examples=25, deadline=None)
def test_every_line_counts_once_whenever_the_agent_is_killed(steps: list[str]) -> None:
    """Also while events wait; no lines wait longer than to a checkpoint, and none is in two."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        site = Site(pathlib.Path(folder), archived=True)
        stack.callback(lambda: site.database.close())
        site.write((NOW_MS - 100_000, "first"))
        site.run()
        written, handed = 1, dict[tuple[bytes, int], Sealed]()
        for step in [*steps, "write", "pass", "kill"]:
            if step == "write":
                site.write((site.clock() - BASE_MS, f"p{written % 3}"))
                written += 1
            elif step == "step":
                site.pump.step()
            elif step == "checkpoint":
                site.sealed += site.pump.checkpoint()
            elif step == "pass":
                assert isinstance(site.clock, Clock)
                site.clock.now_ms += 700
            else:
                handed |= {(one.tree, one.snapshot.through): one for one in site.sealed}
                site.crash_and_restart()
        assert isinstance(site.clock, Clock)
        site.clock.now_ms += 60_000
        site.run()
        handed |= {(one.tree, one.snapshot.through): one for one in site.sealed}
        site.sealed = list(handed.values())
        assert sum(site.rows().values()) == site.pump.counters.parsed == written
        archived = [pl.read_parquet(each.path) for each in list_files(pathlib.Path(folder) / "archive", "clicks")]
        assert sum(frame.height for frame in archived) == written


def test_a_job_that_wants_no_line_is_asked_once_a_checkpoint(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def none(plan: Plan, frame: pl.DataFrame, columns: object = ()) -> pl.DataFrame:
        asked.append(frame.height)
        return frame.clear()

    site.write((NOW_MS - 10_000, "p"))
    site.run()
    monkeypatch.setattr(Plan, "wanted", none)
    for rounds in (1, 2):
        site.clock.now_ms += SETTINGS.checkpoint_ms // 2
        for number in range(4):
            site.write((NOW_MS, f"p{number}"))
            site.pump.step()
            site.pump.checkpoint()
        assert len(asked) == rounds // 2


def test_what_is_sealed_does_not_wait_for_a_slow_disk_to_be_paid_for_and_all_else_does(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole checkpoint is paid for, with what it takes to read out what is open."""
    site.write((NOW_MS - 10_000, "p"))
    site.run()
    collects = site.pump._collect
    up_ms = [0]

    def slow(*given: Any, **options: Any) -> Any:
        up_ms[0] += 150
        return collects(*given, **options)

    monkeypatch.setattr(site.pump, "_collect", slow)
    monkeypatch.setattr(site.clock, "up_ms", lambda: up_ms[0])
    site.pump.checkpoint(force=True)

    def read_and_saved(after_ms: int) -> tuple[int, int]:
        """Read a line of some time after the last checkpoint, then; return how many are read, and on disk."""
        site.clock.now_ms = BASE_MS + NOW_MS + after_ms
        site.write((NOW_MS + after_ms, "a"))
        site.pump.step()
        site.sealed += site.pump.checkpoint()
        state = site.checkpoints.source("clicks")
        assert state is not None
        return site.pump.counters.read, msgspec.json.decode(state.counters, type=SourceProgress).counters.read

    assert read_and_saved(SETTINGS.checkpoint_ms + 200) == (2, 1), "it would cost 150 ms again"
    assert read_and_saved(PLAN.interval_ms + 100) == (3, 3), "an interval has ended, and others wait for that"
    assert sum(site.rows().values()) == 2


def test_a_job_is_not_concerned_with_the_types_that_another_one_has(site: Site) -> None:
    """Whichever comes last, also where each line says something else in each type."""
    fractions = compile_job(
        msgspec.structs.replace(PLAN.definition, name="other"), {**COLUMNS, "cents": SqlType.DOUBLE}
    )
    site.pump.attach(Worker(fractions, "w1", tree=b"other", new=True))
    with (site.folder / "a.log").open("w") as file:
        file.write("".join(f'{{"ts":{BASE_MS},"product":"a","cents":{cents}}}\n' for cents in (1, 2.5)))
    site.run()
    found = {
        one.tree: opened(one.snapshot.payload, fractions if one.tree == b"other" else PLAN)[1].rows()
        for one in site.sealed
        if one.snapshot.payload is not None
    }
    assert site.pump.counters == Counters(read=2, parsed=2)
    first = BASE_MS // 2_000
    assert found == {PLAN.definition.app_id: [(first, "a", 2, 1, 0, 1)], b"other": [(first, "a", 2, 3.5, 0.0, 2)]}
