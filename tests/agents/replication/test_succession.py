"""A successor goes on where a lost agent was copied: nothing is counted twice, and what is lost is labelled."""

from __future__ import annotations

import asyncio
import collections
import pathlib
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.errors import UnavailableError
from elf.agents.intake.progress import SourceProgress
from elf.agents.master.commands import Enlisted
from elf.agents.replication.inherited import taken_over
from elf.agents.replication.succession import Succession, is_all_there
from elf.agents.sources.counters import Counters
from elf.agents.sources.files.tail import Tail
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.store.database import Database
from elf.agents.wire.replicas import KeepCheckpoint, Recall
from elf.agents.wire.request import AnyRequest
from elf.agents.worker.payload import Notes
from elf.agents.worker.state import Progress, Snapshot, SourceState, Whole, WorkerState
from elf.agents.worker.worker import Worker
from elf.cbt import INTERVAL
from elf.cbt import encode as encode_paos
from elf.overlay.contract import NEVER, Verdict
from tests.agents.plans import events, opened, plan_of
from tests.agents.replication.neighbours import Neighbourhood, job_of

PLAN = plan_of()
Rows = collections.Counter[tuple[int, str]]
Line = tuple[int, str]


def contents(snapshots: Sequence[Snapshot]) -> tuple[Rows, Notes]:
    rows: Rows = collections.Counter()
    notes = Notes()
    for snapshot in snapshots:
        if snapshot.payload is not None:
            more, frame = opened(snapshot.payload, PLAN)
            notes += more
            for row in frame.to_dicts():
                rows[row[INTERVAL], row["k0"]] += row["a0_n"]
    return rows, notes


def truth(lines: Sequence[Line]) -> Rows:
    return collections.Counter((at_ms // 2_000, product) for at_ms, product in lines)


def insert(worker: Worker, *lines: Line) -> None:
    worker.insert(events([(at_ms, product, 1) for at_ms, product in lines]))


class Lost:
    """An agent whose disk is lost in the middle of everything, and the copy of its checkpoint."""

    def __init__(self, lines: Sequence[Line], seals: Sequence[bool], copied: int, share: float, tells: bool) -> None:
        """Read all lines; `copied`: before which one it was copied; `share`: of its snapshots that were counted."""
        worker, self.sealed = Worker(PLAN, "w1"), list[Snapshot]()
        newest_ms = 0
        for number, (line, seal) in enumerate(zip(lines, seals, strict=True)):
            if number == copied:
                before = list(self.sealed)
                self.state = worker.state(before)
            insert(worker, line)
            newest_ms = max(newest_ms, line[0])
            self.sealed += worker.seal(newest_ms) if seal else []
        counted = int(share * len(self.sealed))
        self.counted = self.sealed[counted - 1].through if counted else NEVER
        if tells:
            # At the checkpoint it knew verdicts of some that were counted.
            known = [one for one in before if one.through <= self.counted]
            if known:
                progress = msgspec.structs.replace(self.state.progress, settled=known[-1].through)
                left = [one for one in before if one not in known]
                self.state = msgspec.structs.replace(self.state, progress=progress, sealed=left)

    def succeed(self, entry: Enlisted, rest: Sequence[Line]) -> tuple[Rows, Notes]:
        """Let a successor take over and read on; returns all that it seals."""
        successor = Worker.restore(PLAN, "w2", taken_over(self.state, entry, PLAN))
        if rest:
            insert(successor, *rest)
        return contents(successor.seal(1_000_000))

    @property
    def entry(self) -> Enlisted:
        return Enlisted("10.0.0.2:1", None if self.counted == NEVER else self.counted, of=("w1",))

    @property
    def counted_rows(self) -> Rows:
        return contents([one for one in self.sealed if one.through <= self.counted])[0]


LINES = st.lists(st.tuples(st.integers(0, 19_999), st.sampled_from("ab")), min_size=1, max_size=30)


@settings(max_examples=300, deadline=None)
@given(LINES, st.data(), st.floats(0, 1), st.booleans(), st.booleans())
def test_nothing_is_counted_twice_and_what_is_lost_is_labelled(
    lines: list[Line], data: st.DataObject, share: float, tells: bool, in_order: bool
) -> None:
    lines = sorted(lines) if in_order else lines
    seals = data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))
    copied = data.draw(st.integers(0, len(lines) - 1))
    lost = Lost(lines, seals, copied, share, tells)
    brought, notes = lost.succeed(lost.entry, lines[copied:])
    total = lost.counted_rows + brought
    assert not total - truth(lines), "nothing is counted twice"
    # Late lines that come to a successor are left out where its predecessor may have been counted with them.
    left_out = {(at_ms // 2_000, product) for at_ms, product in lines[copied:] if at_ms // 2_000 <= lost.counted}
    for interval, product in truth(lines) - total:
        labelled = any(since <= interval <= until for since, until in notes.gaps)
        assert labelled or (interval, product) in left_out
    if in_order:
        assert total == truth(lines), "all of it is counted"
        assert not notes.gaps


def test_without_the_rule_the_checkpoint_would_be_counted_beside_the_owner_s_snapshots() -> None:
    lines = [(1_000, "a"), (3_000, "a"), (3_500, "b"), (5_000, "a")]
    lost = Lost(lines, [False, True, False, True], copied=3, share=1.0, tells=False)
    assert lost.counted == 1, "what was open at the copy was sealed and counted later"
    brought, _ = lost.succeed(lost.entry, lines[3:])
    assert lost.counted_rows + brought == truth(lines)
    all_of_it, _ = lost.succeed(Enlisted("10.0.0.2:1", of=("w1",)), lines[3:])
    assert lost.counted_rows + all_of_it - truth(lines) == {(0, "a"): 1, (1, "a"): 1, (1, "b"): 1}


def test_late_rows_that_may_have_been_counted_are_left_out_and_labelled() -> None:
    #  copied here with a late row of interval 0 ──┐   then interval 1 was sealed, with it, and counted
    lines = [(1_000, "a"), (3_000, "a"), (500, "late"), (4_500, "a")]
    lost = Lost(lines, [False, True, False, True], copied=3, share=1.0, tells=True)
    brought, notes = lost.succeed(lost.entry, lines[3:])
    assert (brought, notes.gaps) == ({(2, "a"): 1}, ((0, 0),))


def test_late_rows_that_nothing_was_sealed_after_are_brought() -> None:
    lines = [(1_000, "a"), (3_000, "a"), (500, "late"), (3_500, "a")]
    lost = Lost(lines, [False, True, False, False], copied=3, share=1.0, tells=True)
    brought, notes = lost.succeed(lost.entry, lines[3:])
    assert (brought, notes.gaps, notes.late) == ({(0, "late"): 1, (1, "a"): 2}, (), 1)


def test_what_the_lost_agent_was_missing_from_is_told_to_have_come() -> None:
    lines = [(1_000, "a"), (3_000, "a"), (5_000, "a"), (5_500, "a")]
    lost = Lost(lines, [False, True, True, False], copied=3, share=0.5, tells=True)
    assert lost.counted == 0
    entry = Enlisted("10.0.0.2:1", 0, missed=1, of=("w1",))
    brought, notes = lost.succeed(entry, lines[3:])
    assert (brought, notes.settles) == ({(1, "a"): 1, (2, "a"): 2}, {"w2": ((0, 1),)})


@pytest.mark.parametrize("straggler", ["drop", "void"])
def test_where_a_job_drops_what_was_leapt_nothing_of_before_is_brought(straggler: str) -> None:
    plan = plan_of(options=f'straggler = "{straggler}"')
    worker = Worker(plan, "w1")
    insert(worker, (1_000, "a"))
    sealed = worker.seal(2_000)
    insert(worker, (500, "late"), (3_000, "b"))
    state = taken_over(worker.state(sealed), Enlisted("10.0.0.2:1", 0, of=("w1",)), plan)
    brought, notes = contents(Worker.restore(plan, "w2", state).seal(1_000_000))
    assert (brought, notes.gaps) == ({(1, "b"): 1}, ((0, 0),))


def test_a_settled_run_that_was_missed_stays_owed() -> None:
    worker = Worker(PLAN, "w1")
    insert(worker, (1_000, "a"))
    sealed = worker.seal(2_000)
    worker.settle(Verdict(NEVER, 0, True), sealed)
    state = taken_over(worker.state(), Enlisted("10.0.0.2:1", of=("w1",)), PLAN)
    brought, notes = contents(Worker.restore(PLAN, "w2", state).seal(1_000_000))
    assert (brought, notes.settles) == ({(0, "a"): 1}, {"w2": ((NEVER, 0),)})


# ---- what is still to be read


def read_all(tail: Tail) -> bytes:
    found = b""
    while (chunk := tail.read(1 << 16)) is not None:
        found += chunk.data
    return found


def test_files_that_are_all_there_need_no_copy(tmp_path: pathlib.Path) -> None:
    log, other = tmp_path / "a.log", tmp_path / "b.log"
    log.write_text("one\ntwo\n")
    other.write_text("three\n")
    tail = Tail([str(log), str(other)])
    read_all(tail)
    places = tail.positions()
    tail.close()
    assert is_all_there(places)
    log.write_text("one\ntwo\nmore\n")
    assert is_all_there(places), "more may have come"
    log.rename(tmp_path / "a.log.1")
    assert not is_all_there(places), "nobody would read it from the beginning"
    log.write_text("one\ntwx\nmore\n")
    assert not is_all_there(places), "it is another file"
    log.unlink()
    assert not is_all_there(places)
    (tmp_path / "empty.log").touch()
    tail = Tail([str(tmp_path / "empty.log"), str(tmp_path / "none.log")])
    tail.read(1)
    assert is_all_there(tail.positions()), "nothing was read"
    tail.close()


def test_a_rotated_file_is_not_read_from_the_beginning(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\n")
    tail = Tail([str(log)])
    read_all(tail)
    log.rename(tmp_path / "a.log.1")
    log.write_text("two\n")
    for _ in range(20):
        read_all(tail)
    assert not is_all_there(tail.positions())
    tail.close()


# ---- taking over


class Pump:
    from_end = False


class Intake:
    """An intake that remembers what it takes over."""

    def __init__(self) -> None:
        self.pump = Pump()
        self.adopted: list[tuple[SourceState, list[Worker]]] = []

    async def adopt(self, source: SourceState, workers: list[Worker]) -> None:
        self.adopted.append((source, workers))


class Site(Neighbourhood):
    """Agent a1 begins with an empty disk; a0 was at its address."""

    def __init__(self, folder: pathlib.Path, *options: str) -> None:
        self.jobs = [job_of(text, name=f"job{number}") for number, text in enumerate(options or ("",))]
        super().__init__(*self.jobs)
        self.folder, self.database = folder, Database(folder / "state.db")
        self.checkpoints, self.intake = Checkpoints(self.database), Intake()
        self.entries = {job.tree: Enlisted("10.0.0.1:1", 3, of=("a0",)) for job in self.jobs}
        self.enlisted: list[bytes] = []
        self.copies: dict[str, KeepCheckpoint] = {}
        self.node.reply = self.answer
        self.succession = Succession(
            "a1",
            self.node,  # type: ignore[arg-type]
            {"clicks": self.intake},  # type: ignore[dict-item]
            self.catalogue,
            self.checkpoints,
            self.enlist,
        )

    def answer(self, address: str, request: AnyRequest) -> KeepCheckpoint | None:
        assert request == Recall("clicks", "10.0.0.1:1")
        return self.copies.get(address)

    async def enlist(self, job: object) -> Enlisted:
        tree = job.tree  # type: ignore[attr-defined]
        self.enlisted.append(tree)
        return self.entries[tree]

    def copy(self, number: int, *, agent: str = "a0", log: str = "gone.log") -> KeepCheckpoint:
        """Return a copy of agent a0's checkpoint, which had read a line of a log."""
        path = self.folder / f"copied-{number}.log"
        path.write_text("a line\n")
        tail = Tail([str(path)])
        read_all(tail)
        positions = tail.positions().replace(path.name.encode(), log.encode())
        tail.close()
        counters = msgspec.json.encode(SourceProgress(Counters(read=number), 9_000, 9_000))
        source = SourceState("clicks", positions, counters, number)
        workers = []
        for job in self.jobs:
            schema = self.catalogue.plan(job.tree).schema
            workers.append(WorkerState(job.tree, Progress(sealed=3), encode_paos(schema.empty())))
        return KeepCheckpoint("clicks", "10.0.0.1:1", agent, number, msgspec.msgpack.encode(Whole(source, workers)))

    async def settle(self) -> list[tuple[int, int]]:
        """Let it take over; returns the number and how many workers of what was."""
        await self.succession.settle("clicks")
        self.database.close()
        return [(source.sequence, len(workers)) for source, workers in self.intake.adopted]


async def test_the_newest_copy_is_taken_over_once_with_all_its_jobs(tmp_path: pathlib.Path) -> None:
    site = Site(tmp_path, "", "replicas = 2")
    near = site.near()
    site.node.silent.add(near[0])
    site.copies = {near[1]: site.copy(4), near[2]: site.copy(6)}
    await asyncio.gather(*(site.succession.settle("clicks") for _ in range(3)))
    assert await site.settle() == [(6, 2)]
    ((_, workers),) = site.intake.adopted
    assert [(worker.agent_id, worker.progress.sealed, worker.new) for worker in workers] == [("a1", 3, False)] * 2
    assert site.succession.adopted == 1


async def test_an_agent_with_a_checkpoint_of_its_own_asks_nobody(tmp_path: pathlib.Path) -> None:
    site = Site(tmp_path)
    site.copies = dict.fromkeys(site.near(), site.copy(4))
    site.checkpoints.write(SourceState("clicks", b"[]", b"{}", 1), [])
    assert (await site.settle(), site.node.asked) == ([], [])


async def test_an_agent_without_a_predecessor_asks_no_neighbour(tmp_path: pathlib.Path) -> None:
    site = Site(tmp_path, "", "")
    site.copies = dict.fromkeys(site.near(), site.copy(4))
    site.entries = dict.fromkeys(site.entries, Enlisted("10.0.0.1:1"))
    assert (await site.settle(), site.node.asked) == ([], [])


async def test_a_state_file_that_was_replaced_beside_its_logs_needs_no_copy(tmp_path: pathlib.Path) -> None:
    """Only the disk's own mark knows the agent before us; the spool of pushes and the archive are as old as that."""
    Database(tmp_path / "state.db").close()
    (tmp_path / "state.db").unlink()
    site = Site(tmp_path)
    assert site.checkpoints.predecessor is not None
    site.copies = dict.fromkeys(site.near(), site.copy(4))
    assert (await site.settle(), site.node.asked) == ([], [])


async def test_a_copy_is_of_use_only_where_its_agent_is_excluded(tmp_path: pathlib.Path) -> None:
    site = Site(tmp_path, "", "")
    site.copies = {site.near()[0]: site.copy(9, agent="a8"), site.near()[1]: site.copy(4)}
    site.entries[site.jobs[0].tree] = Enlisted("10.0.0.1:1", 3)
    assert await site.settle() == [(4, 1)]
    assert [worker.tree for worker in site.intake.adopted[0][1]] == [site.jobs[1].tree]


async def test_nothing_is_taken_over_where_all_lines_are_read_again_anyway(tmp_path: pathlib.Path) -> None:
    for from_end, adopted in ((False, []), (True, [(4, 1)])):
        site = Site(tmp_path / str(from_end))
        site.intake.pump.from_end = from_end
        site.copies = {site.near()[0]: site.copy(4, log="copied-4.log")}
        assert await site.settle() == adopted


async def test_nothing_is_taken_over_where_another_job_would_lose_lines(tmp_path: pathlib.Path) -> None:
    for options, adopted in (("replicas = 0", []), ('semantics = "at-most-once"', [(4, 2)])):
        site = Site(tmp_path / options[:4], "", options)
        site.copies = {site.near()[0]: site.copy(4)}
        assert await site.settle() == adopted


async def test_bytes_that_are_no_checkpoint_are_passed_over(tmp_path: pathlib.Path) -> None:
    site = Site(tmp_path)
    good = site.copy(4)
    whole = msgspec.msgpack.decode(good.body, type=Whole)

    def with_source(**changes: object) -> bytes:
        source = msgspec.structs.replace(whole.source, **changes)
        return msgspec.msgpack.encode(msgspec.structs.replace(whole, source=source))

    bad_block = msgspec.structs.replace(whole.workers[0], open_block=b"\xff")
    bad_snapshot = msgspec.structs.replace(whole.workers[0], sealed=(Snapshot(5, b"\xff"),))
    bodies = [
        b"\xc1",
        with_source(positions=b"[]"),
        with_source(counters=b"{}"),
        with_source(source="orders"),
        with_source(sequence=5),
        msgspec.msgpack.encode(msgspec.structs.replace(whole, workers=[bad_block])),
        msgspec.msgpack.encode(msgspec.structs.replace(whole, workers=[bad_snapshot])),
    ]
    for body in bodies:
        site.copies = {site.near()[0]: msgspec.structs.replace(good, body=body)}
        await site.succession._take_over("clicks")
    site.copies = {site.near()[0]: msgspec.structs.replace(good, agent="a1")}
    await site.succession._take_over("clicks")
    assert site.intake.adopted == []
    site.copies = {site.near()[0]: good}
    assert await site.settle() == [(4, 1)]


async def test_a_master_that_is_away_is_asked_again(tmp_path: pathlib.Path) -> None:
    site = Site(tmp_path)
    site.copies = {site.near()[0]: site.copy(4)}
    enlist, away = site.enlist, True

    async def sometimes(job: object) -> Enlisted:
        if away:
            raise UnavailableError("away")
        return await enlist(job)

    site.succession._enlist = sometimes
    with pytest.raises(UnavailableError):
        await site.succession.settle("clicks")
    away = False
    assert await site.settle() == [(4, 1)]
