"""What `exactly-once`, `at-least-once` and `at-most-once` promise, with a real pump and store, crashes anywhere."""

from __future__ import annotations

import collections
import pathlib
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.intake.decoder import Decoder
from elf.agents.intake.pump import Pump
from elf.agents.intake.pump_settings import PumpSettings
from elf.agents.intake.source_checkpoints import Sealed
from elf.agents.jobs.plan import Plan
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
from elf.cbt import INTERVAL
from elf.overlay.contract import NEVER, Verdict
from tests.agents.plain_clock import PlainClock
from tests.agents.plans import COLUMNS, opened, plan_of

SEMANTICS = ("exactly-once", "at-least-once", "at-most-once")
START_MS = 1_767_225_600_000
REDACTOR = Redactor(PrivacySection())
DECODER = Decoder(make_format("json"), COLUMNS, REDACTOR, Dictionaries(REDACTOR.texts))


@dataclass
class Root:
    """A root and the tree to it, for one agent: a commit holds one of the claims for its interval, or none."""

    plan: Plan
    committed: int = NEVER
    claims: list[tuple[int, int, bytes | None]] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    counted: collections.Counter[str] = field(default_factory=collections.Counter)
    named: list[tuple[int, int]] = field(default_factory=list)

    def commit(self, draw: random.Random) -> None:
        """Commit the earliest interval that a claim ends at, with one claim for it, whichever, or without any."""
        self.claims = [claim for claim in self.claims if claim[1] > self.committed]
        point = min((through for _, through, _ in self.claims), default=None)
        if point is None:
            return
        covering = [claim for claim in self.claims if claim[0] <= self.committed or self.committed == NEVER]
        covering = [claim for claim in covering if claim[0] < point <= claim[1]]
        missing = not covering or draw.random() < 0.2
        if not missing:
            _, through, payload = draw.choice(covering)
            if through == point and payload is not None:
                notes, frame = opened(payload, self.plan)
                self.note(notes)
                for row in frame.to_dicts():
                    assert row[INTERVAL] <= point
                    self.counted[row["k0"]] += row["a0_n"]
        self.verdicts.append(Verdict(self.committed, point, missing))
        self.committed = point

    def note(self, notes: Notes) -> None:
        self.named += [run for runs in notes.lost.values() for run in runs]


class Site:
    """One agent with one source, on a folder."""

    def __init__(self, folder: pathlib.Path, semantics: str) -> None:
        self.folder, self.now_ms = folder, START_MS
        self.plan = plan_of(options=f'semantics = "{semantics}"')
        self.root = Root(self.plan)
        self.produced: dict[str, int] = {}
        self.start()

    def start(self) -> None:
        self.database = Database(self.folder / "state" / "state.db")
        checkpoints = Checkpoints(self.database)
        tail = Tail(str(self.folder / "*.log"))
        rejected = RejectedLines(self.folder / "rejected" / "s.txt")
        self.pump = Pump(
            PumpSettings(source="clicks", chunk_bytes=1 << 16, checkpoint_ms=1_000),
            tail,
            DECODER,
            checkpoints,
            None,
            rejected,
            PlainClock(lambda: self.now_ms),
        )
        state = checkpoints.worker(self.plan.definition.app_id)
        self.worker = Worker(self.plan, "w1", new=True) if state is None else Worker.restore(self.plan, "w1", state)
        self.pump.attach(self.worker)
        #: On its way, again and again, until it arrives or we crash.
        self.sent: list[tuple[int, int, bytes | None]] = []
        settled = self.worker.progress.settled
        self.since = NEVER if settled is None else settled
        self.told = self.since
        for snapshot in () if state is None else state.sealed:
            self.claim(Sealed(self.worker.tree, snapshot), True)

    def claim(self, one: Sealed, arrives: bool) -> None:
        (self.root.claims if arrives else self.sent).append((self.since, one.snapshot.through, one.snapshot.payload))
        self.since = one.snapshot.through

    def write(self, behind_ms: int) -> None:
        name, ts_ms = f"p{len(self.produced)}", self.now_ms - behind_ms
        self.produced[name] = ts_ms // self.plan.interval_ms
        with (self.folder / "a.log").open("a") as file:
            file.write(f'{{"ts":{ts_ms},"product":"{name}","cents":1}}\n')

    def work(self, arrives: bool) -> None:
        """One round of the intake; what is handed over reaches the root, or not before we crash."""
        self.pump.step()
        for one in self.pump.checkpoint():
            self.claim(one, arrives)

    def hear(self) -> None:
        """Take the verdicts that we have not heard yet."""
        for verdict in self.root.verdicts:
            if verdict.through > self.told:
                heard = Verdict(max(verdict.previous, self.told), verdict.through, verdict.missing)
                self.pump.settle(self.worker.tree, heard)
                self.told = verdict.through

    def crash(self) -> None:
        self.database.close()
        self.start()

    def stop(self) -> None:
        for one in self.pump.checkpoint(force=True):
            self.claim(one, True)
        self.crash()

    def settle(self) -> None:
        """Let everything arrive, with nobody missing any more."""
        never = random.Random()
        never.random = lambda: 1.0  # type: ignore[method-assign]
        self.root.claims += self.sent
        for _ in range(7):
            self.now_ms += 2_500
            for _ in range(3):
                self.work(True)
                while self.root.claims:
                    self.root.commit(never)
                self.hear()


steps = st.lists(
    st.sampled_from(["write", "late", "wait", "work", "work", "lose", "commit", "hear", "crash", "stop"]), max_size=40
)


@pytest.mark.parametrize("semantics", SEMANTICS)
@settings(max_examples=40, deadline=None)
@given(steps, st.integers(0, 1 << 30))
def test_each_semantics_keeps_its_promise(
    tmp_path_factory: pytest.TempPathFactory, semantics: str, script: list[str], seed: int
) -> None:
    draw = random.Random(seed)
    site = Site(tmp_path_factory.mktemp("site"), semantics)
    for step in script:
        match step:
            case "write":
                site.write(0)
            case "late":
                site.write(draw.choice((1_500, 3_000, 9_000)))
            case "wait":
                site.now_ms += draw.choice((100, 1_100, 2_300))
            case "work" | "lose":
                site.work(step == "work")
            case "commit":
                site.root.commit(draw)
            case "hear":
                site.hear()
            case "crash":
                site.crash()
            case "stop":
                site.stop()
    site.settle()
    site.database.close()
    counted = {name: site.root.counted[name] for name in site.produced}
    if semantics != "at-least-once":
        assert all(number <= 1 for number in counted.values()), counted
    lost = {name: interval for name, interval in site.produced.items() if not counted[name]}
    if semantics != "at-most-once":
        assert not lost
    named = site.root.named
    assert all(any(after < interval <= through for after, through in named) for interval in lost.values())


def test_at_most_once_loses_by_name_what_was_in_memory_and_at_least_once_counts_again(tmp_path: pathlib.Path) -> None:
    """The promises above would hold, too, if everything were exactly-once."""
    counts = {}
    for semantics in SEMANTICS:
        folder = tmp_path / semantics
        folder.mkdir()
        site = Site(folder, semantics)
        site.work(True)  # the checkpoint that allows the next ones to be early
        site.now_ms += 4_000
        site.write(0)
        site.work(True)
        site.now_ms += 2_500
        site.work(True)
        if semantics == "at-most-once":
            site.root.claims.clear()  # it never arrived
        site.root.commit(random.Random(1))
        site.crash()
        site.settle()
        site.database.close()
        counts[semantics] = site.root.counted["p0"]
        assert bool(site.root.named) == (semantics == "at-most-once")
    assert counts == {"exactly-once": 1, "at-least-once": 2, "at-most-once": 0}


def test_a_planned_stop_loses_and_repeats_nothing(tmp_path: pathlib.Path) -> None:
    for semantics in SEMANTICS:
        folder = tmp_path / semantics
        folder.mkdir()
        site = Site(folder, semantics)
        for _ in range(3):
            site.write(0)
            site.work(True)
            site.stop()
            site.now_ms += 2_500
        site.settle()
        site.database.close()
        assert [site.root.counted[name] for name in site.produced] == [1, 1, 1]
        assert site.root.named == []
