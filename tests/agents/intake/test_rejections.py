"""A source whose lines are nearly all rejected: said once, and never under the label of a complete result."""

import dataclasses
import logging
import pathlib
from collections.abc import Iterator

import msgspec
import pytest

from elf.agents.intake.decoder import Decoder
from elf.agents.intake.pump import Pump
from elf.agents.intake.pump_settings import PumpSettings
from elf.agents.intake.rejections import NOTED_MS
from elf.agents.intake.source_checkpoints import Sealed
from elf.agents.jobs.plan import compile_job
from elf.agents.jobs.versions import NEVER, Compiled, Version, Versions
from elf.agents.settings.config import PrivacySection
from elf.agents.sources.dictionaries import Dictionaries
from elf.agents.sources.files.tail import Tail
from elf.agents.sources.format import make_format
from elf.agents.sources.privacy.redaction import Redactor
from elf.agents.sources.rejected import RejectedLines
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.store.database import Database
from elf.agents.worker.payload import Notes
from elf.agents.worker.worker import Worker
from tests.agents.plain_clock import PlainClock
from tests.agents.plans import COLUMNS, opened, plan_of

PLAN = plan_of()
#: Of a job that is published later.
LATER = compile_job(msgspec.structs.replace(PLAN.definition, name="later"), COLUMNS)
#: A whole number of intervals after 1970.
BASE_MS = 1_767_225_600_000
INTERVAL = BASE_MS // 2_000
WRONG = '192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] "GET /?token=secret HTTP/1.1" 200 5 "-" "curl"\n'
REDACTOR = Redactor(PrivacySection())
DECODER = Decoder(make_format("json"), COLUMNS, REDACTOR, Dictionaries(REDACTOR.texts))


@dataclasses.dataclass
class Site:
    folder: pathlib.Path
    now_ms: int = BASE_MS

    def __post_init__(self) -> None:
        self.database = Database(self.folder / "state" / "state.db")
        tail = Tail(str(self.folder / "*.log"))
        rejected = RejectedLines(self.folder / "rejected" / "s.txt")
        self.pump = Pump(
            PumpSettings(source="clicks", chunk_bytes=1 << 16, checkpoint_ms=1_000), tail,
            DECODER, Checkpoints(self.database), None, rejected, PlainClock(lambda: self.now_ms),
        )  # fmt: skip
        self.pump.attach(Worker(PLAN, "w1", new=True))

    def write(self, text: str, log: str = "a.log") -> None:
        with (self.folder / log).open("a") as file:
            file.write(text)

    def event(self) -> str:
        return f'{{"ts":{self.now_ms},"product":"a","cents":1}}\n'

    def read(self) -> None:
        while self.pump.step():
            pass

    def notes(self) -> Notes:
        """Seal all there is, and return what it says."""
        self.now_ms += 60_000
        self.read()
        sealed: list[Sealed] = list(self.pump.checkpoint(force=True))
        payloads = [one.snapshot.payload for one in sealed if one.snapshot.payload is not None]
        return sum((opened(payload, PLAN)[0] for payload in payloads), Notes())


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.database.close()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [each.getMessage() for each in caplog.records if each.name == "elf.agents.intake.rejections"]
    caplog.clear()
    return said


def test_a_wrong_format_is_said_once_with_what_would_be_right(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    site.write(WRONG * 3)
    site.read()
    shown = WRONG.strip().replace("secret", "***")
    assert site.pump.rejecting.trouble == (
        f"3 of 3 lines of {site.folder}/a.log, read as 'json', are rejected: these lines are no JSON objects; say what "
        "they are with --format (format under [sources.clicks]), such as combined "
        f"(one of them: {shown!r}, reason: json: not an object (byte 0))"
    )
    assert warnings(caplog) == [
        f"source clicks: {site.pump.rejecting.trouble}; results lack these lines, and say so",
    ]
    site.write(WRONG * 100)
    site.read()
    assert warnings(caplog) == []


def test_it_is_said_again_only_after_it_recovered(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.write(WRONG * 30)
    site.read()
    site.write(site.event() * 30)
    site.read()
    assert site.pump.rejecting.trouble is None
    site.write(WRONG * 30)
    site.read()
    first, recovered, again = warnings(caplog)
    assert recovered == "source clicks: most of its lines are events again"
    assert first == again


def test_a_source_most_of_whose_lines_no_job_wants_is_in_no_wrong_format(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The pre-filter skips nearly all good lines, and keeps those of a stack trace that have its text."""
    wanting = plan_of("SELECT product, count(*) AS n FROM clicks WHERE product = 'needle' GROUP BY product")
    assert wanting.literals
    site.pump.detach(PLAN.definition.app_id)
    worker = Worker(wanting, "w1", new=True)
    site.pump.attach(worker)
    good = site.event()
    for _ in range(3):
        site.write(good * 2_000 + good.replace('"a"', '"needle"') + "needle is no product\n" * 12)
        site.read()
    assert site.pump.counters.filtered == 6_000 and site.pump.counters.rejected == 36
    assert site.pump.rejecting.trouble is None and warnings(caplog) == []
    assert worker.progress.rejected == 36 and worker.progress.gaps == ()


def test_labels_count_every_rejected_line_and_have_no_gap_where_they_are_few(site: Site) -> None:
    site.write((site.event() * 9 + "nonsense\n") * 5)
    site.read()
    assert site.notes() == Notes(rejected=5, lines=50, misread=True)
    assert site.notes() == Notes(), "once only"


def test_labels_have_a_gap_while_nearly_all_lines_are_rejected(site: Site) -> None:
    site.write(WRONG * 30)
    site.read()
    notes = site.notes()
    assert notes.rejected == 30
    assert notes.gaps == ((0, INTERVAL + NOTED_MS // 2_000),), "nobody knows of which time they were"
    idle = INTERVAL + 30
    assert site.notes() == Notes(), "no line came"
    site.write(WRONG)
    site.read()
    notes = site.notes()
    assert notes.rejected == 1
    ((since, until),) = notes.gaps
    assert since >= idle, "results of before stand"
    assert until == INTERVAL + (120_000 + NOTED_MS) // 2_000


def test_gaps_are_noted_once_in_a_while_however_many_chunks_there_are(site: Site) -> None:
    for _ in range(100):
        site.write(WRONG * 5)
        site.read()
        site.now_ms += 10
    assert len(site.pump.workers[PLAN.definition.app_id].progress.gaps) == 1


@pytest.mark.parametrize("order", [("a.log", "b.log"), ("b.log", "a.log")])
def test_a_log_is_missing_since_its_own_last_event_however_far_others_are(site: Site, order: tuple[str, ...]) -> None:
    site.write(site.event(), "b.log")
    site.read()
    site.now_ms += 20_000
    site.write(site.event() * 3)
    site.read()
    for log in order:
        site.write(WRONG * 90, log)
        site.read()
    later = INTERVAL + 10
    worker = site.pump.workers[PLAN.definition.app_id]
    assert min(worker.progress.gaps) == (INTERVAL, later + NOTED_MS // 2_000)
    told = Worker(LATER, "w1", new=True)
    site.pump.attach(told)
    assert told.progress.gaps == ((INTERVAL, later + NOTED_MS // 2_000),)


def test_of_a_log_that_was_never_read_right_nobody_knows_since_when_it_is_missing(site: Site) -> None:
    site.write(site.event() * 3)
    site.read()
    site.write(WRONG * 90, "b.log")
    site.read()
    assert site.pump.workers[PLAN.definition.app_id].progress.gaps == ((0, INTERVAL + NOTED_MS // 2_000),)


def test_a_job_that_comes_meanwhile_is_told_what_the_others_were(site: Site) -> None:
    site.write(site.event() * 30)
    site.read()
    site.now_ms += 4_000
    site.write(WRONG * 30)
    site.read()
    site.now_ms += 1_000
    later = Worker(LATER, "w1", new=True)
    site.pump.attach(later)
    site.write(WRONG)
    site.read()
    assert later.progress.rejected == 1
    assert later.progress.gaps == site.pump.workers[PLAN.definition.app_id].progress.gaps
    ((since, until),) = later.progress.gaps
    assert since == INTERVAL
    assert until == (BASE_MS + 4_000 + NOTED_MS) // 2_000


def test_a_job_that_is_resumed_meanwhile_is_told_what_the_others_were(site: Site) -> None:
    site.write(site.event() * 30)
    site.read()
    worker = site.pump.workers[PLAN.definition.app_id]
    history = list(worker.versions.all)
    for number, what, since in ((2, "pause", NEVER), (3, "resume", INTERVAL)):
        definition = msgspec.structs.replace(PLAN.definition, version=number)
        version = Version(number=number, definition=definition, what=what, since=since)
        history.append(Compiled(version, PLAN))
        site.pump.change(PLAN.definition.app_id, Versions(history))
        if what == "pause":
            site.write(WRONG * 30)
            site.read()
            assert worker.counts_nothing
            assert worker.progress.gaps == ()
    assert not worker.counts_nothing
    assert worker.progress.gaps == ((INTERVAL, INTERVAL + NOTED_MS // 2_000),)


def test_a_job_that_comes_afterwards_is_told_nothing(site: Site) -> None:
    site.write(WRONG * 30)
    site.read()
    site.write(site.event() * 30)
    site.read()
    later = Worker(LATER, "w1", new=True)
    site.pump.attach(later)
    assert later.progress.gaps == ()
