"""A source whose settings do not say what its lines are: found out once, kept for ever, nothing read before."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator

import pytest

from elf.agents.host.clock import Clock
from elf.agents.intake.decoder import make_decoder
from elf.agents.intake.pump import Pump
from elf.agents.intake.recognition import FEW_MS, LINES_ENOUGH, LOOK_MS, LOOK_MS_MAX, Recognition
from elf.agents.intake.source_setup import describe_columns, make_pump
from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.plan import compile_job
from elf.agents.language.types import SqlType
from elf.agents.settings.config import AgentConfig, AgentSection, SourceConfig
from elf.agents.sources.counters import Counters
from elf.agents.sources.files.readers import Reader, open_reader
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.store.database import Database
from elf.agents.worker.worker import Worker
from tests.agents.plans import opened

COMBINED = '192.0.2.7 - - [01/Jan/2026:00:00:0{} +0000] "GET /a HTTP/1.1" 200 5 "-" "curl"\n'
OBJECT = '{{"time": "2026-01-01T00:00:0{}Z", "path": "/a"}}\n'
UNKNOWN = "so it goes, {} times\n"
PLAN = compile_job(
    load_definition('name = "j"\ncreator = "c"\nquery = "SELECT path, count(*) AS n FROM access GROUP BY path"'),
    {"path": SqlType.STRING},
)


def lines(text: str, count: int) -> str:
    return "".join(text.format(number % 10) for number in range(count))


class Site:
    """One source of one agent, which may be started again."""

    def __init__(self, folder: pathlib.Path, **settings: object) -> None:
        self.folder, self.up_ms = folder, 1_000
        self.log = folder / "access.log"
        self.source = SourceConfig(path=str(self.log), **settings)  # type: ignore[arg-type]
        self.start()

    def start(self) -> None:
        config = AgentConfig(agent=AgentSection(data=str(self.folder / "data")), sources={"access": self.source})
        self.database = Database(self.folder / "data" / "state.db")
        clock = Clock(lambda: 1_767_225_700_000 + self.up_ms, lambda: self.up_ms)
        checkpoints = Checkpoints(self.database)
        self.pump, _ = make_pump("access", self.source, config, self.folder / "data", "web-1", checkpoints, clock)
        state = checkpoints.worker(PLAN.definition.app_id)
        self.pump.attach(Worker(PLAN, "w1", new=True) if state is None else Worker.restore(PLAN, "w1", state))

    def restart(self) -> None:
        self.pump.checkpoint(force=True)
        self.database.close()
        self.start()

    def read(self) -> int:
        """Read what there is; return how many lines that were."""
        before = self.pump.counters.read
        while self.pump.step():
            pass
        return self.pump.counters.read - before


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.database.close()


def known(pump: Pump) -> str | None:
    return None if pump.decoder is None else pump.decoder.format.name


def test_a_source_is_open_unless_it_says_its_format_or_has_columns(tmp_path: pathlib.Path) -> None:
    assert SourceConfig(path="a.log").reads_as == SourceConfig(format="auto").reads_as == "auto"
    assert SourceConfig().reads_as == "json", "pushed events are objects"
    assert SourceConfig(path="a.log", columns={"path": "STRING"}).reads_as == "json"
    assert SourceConfig(path="a.log", format="json").reads_as == "json"


@pytest.mark.parametrize(("text", "name"), [(COMBINED, "combined"), (OBJECT, "json")])
def test_its_first_lines_tell_what_they_are_and_all_are_read(site: Site, text: str, name: str) -> None:
    site.log.write_text(lines(text, LINES_ENOUGH))
    assert known(site.pump) is None
    assert site.read() == LINES_ENOUGH and known(site.pump) == name
    assert site.pump.counters.parsed == LINES_ENOUGH and not site.pump.troubles
    payloads = [one.snapshot.payload for one in site.pump.checkpoint(force=True)]
    counts = [row["a0_n"] for payload in payloads if payload is not None for row in opened(payload, PLAN)[1].to_dicts()]
    assert sum(counts) == LINES_ENOUGH


def test_few_lines_tell_once_no_more_come(site: Site) -> None:
    site.log.write_text(lines(COMBINED, 2))
    assert site.read() == 0 and site.pump.troubles == ["its format is open: 2 lines are too few to tell"]
    assert site.pump.watermark_ms() is None
    site.up_ms += FEW_MS - 1
    site.log.write_text(lines(COMBINED, 3))
    assert site.read() == 0
    site.up_ms += FEW_MS
    assert site.read() == 3 and known(site.pump) == "combined"


def test_where_no_line_is_nothing_is_missing(site: Site) -> None:
    site.log.write_text("")
    assert site.read() == 0 and not site.pump.troubles
    assert site.pump.watermark_ms() == site.pump.now_ms()


def test_a_log_that_is_not_there_or_cannot_be_read_is_out_of_sight(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert site.read() == 0 and site.pump.troubles == [f"no file matches {site.log}"]
    assert site.pump.watermark_ms() is None, "lines may be missing"
    site.log.write_text(lines(COMBINED, 30))

    def refuse(path: str) -> Reader:
        if path == str(site.log):
            raise PermissionError(13, "Permission denied", path)
        return open_reader(path)

    with monkeypatch.context() as patch:
        patch.setattr("elf.agents.sources.files.samples.open_reader", refuse)
        site.up_ms += LOOK_MS
        assert site.read() == 0 and site.pump.troubles == [f"{site.log}: Permission denied"]
        assert site.pump.watermark_ms() is None
    site.up_ms += LOOK_MS
    assert site.read() == 30 and site.pump.watermark_ms() is not None


def test_rows_of_csv_whose_times_need_a_zone_wait_for_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("headed.named", "format", "named_layouts"):
        monkeypatch.setattr(f"elf.agents.sources.{place}.machine_zone", lambda: None)
    site.log.write_text("time,path\n" + "".join(f"2026-01-01 00:00:0{n % 10},/a\n" for n in range(30)))
    assert site.read() == 0 and "their times have no zone" in site.pump.troubles[0]


def test_what_is_nothing_known_is_not_read_and_said(site: Site) -> None:
    site.log.write_text(lines(UNKNOWN, 50))
    assert site.read() == 0 and site.pump.watermark_ms() is None
    (trouble,) = site.pump.troubles
    assert trouble.startswith("its format is open: its lines are of no format that has a name")
    assert "`elf sample FILE`" in trouble
    site.log.write_text(lines(COMBINED, 50))
    site.up_ms += 2 * LOOK_MS
    assert site.read() == 50


def test_what_was_found_is_kept_whatever_comes(site: Site) -> None:
    site.log.write_text(lines(COMBINED, 30))
    assert site.read() == 30
    site.restart()
    assert known(site.pump) == "combined"
    with site.log.open("a") as log:
        log.write(lines(OBJECT, 100))
    assert site.read() == 100
    assert known(site.pump) == "combined" and site.pump.counters.rejected == 100


def test_what_says_its_format_later_is_read_so(site: Site) -> None:
    site.log.write_text(lines(COMBINED, 30))
    site.read()
    site.source = SourceConfig(path=str(site.log), format="common")
    site.restart()
    assert known(site.pump) == "common"


def test_what_lines_are_is_found_out_once_the_settings_say_it_no_more(tmp_path: pathlib.Path) -> None:
    site = Site(tmp_path, format="combined")
    site.log.write_text(lines(COMBINED, 30))
    assert site.read() == 30
    site.source = SourceConfig(path=str(site.log))
    site.restart()
    with site.log.open("a") as log:
        log.write(lines(COMBINED, 30))
    assert site.read() == 30 and site.pump.counters.parsed == 60 and known(site.pump) == "combined"
    site.database.close()


def test_a_time_without_a_zone_is_refused_in_words(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elf.agents.sources.named_layouts.machine_zone", lambda: None)
    site.log.write_text("".join(f"2026/01/01 00:00:0{n % 10} [error] 7#7: *1 it fell\n" for n in range(30)))
    assert site.read() == 0
    (trouble,) = site.pump.troubles
    assert trouble.startswith("sources.access.format: ") and "time_zone" in trouble


def test_its_columns_are_told_before_anything_is_read(tmp_path: pathlib.Path) -> None:
    log, spool = tmp_path / "a.log", tmp_path / "none"
    source = SourceConfig(path=str(log))
    assert describe_columns("access", source, spool, ["path"]) == {"columns": {}, "fields": []}
    log.write_text(lines(UNKNOWN, 30))
    described = describe_columns("access", source, spool, ["path"])
    assert described["fields"] == [] and "of no format that has a name" in described["open"]
    log.write_text(lines(COMBINED, 30))
    described = describe_columns("access", source, spool, ["path"])
    assert described["columns"]["path"] == "STRING" and described["columns"]["status"] == "INT"
    log.write_text(lines(OBJECT, 30))
    assert describe_columns("access", source, spool, ["path"])["columns"] == {"path": "STRING"}


def test_lines_that_are_nothing_known_are_looked_at_less_and_less_often() -> None:
    up_ms, looks = 0, 0

    def samples() -> list[bytes]:
        nonlocal looks
        looks += 1
        return [lines(UNKNOWN, 30).encode()]

    recognition = Recognition("s", samples, lambda found: make_decoder("s", SourceConfig()), None, lambda: up_ms)
    for up_ms in range(0, 4 * LOOK_MS_MAX, LOOK_MS):  # noqa: B007 - the clock
        assert recognition.look().decoder is None
    doubled = itertools.takewhile(lambda pause: pause < LOOK_MS_MAX, (2 * LOOK_MS << n for n in itertools.count()))
    assert looks <= len(list(doubled)) + 1 + 4


def test_headers_are_of_the_front_though_the_source_begins_at_its_end(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "access.log"
    row = "2026-01-01 00:00:0{} 192.0.2.7 /a\n"
    log.write_text("#Fields: date time c-ip cs-uri-stem\n" + lines(row, LINES_ENOUGH))
    site = Site(tmp_path, start="end")
    assert site.read() == 0 and known(site.pump) == "w3c"
    with log.open("a") as file:
        file.write(lines(row, 3))
    site.restart()
    assert site.read() == 3 and site.pump.counters == Counters(read=3, parsed=3)
    site.database.close()
