"""Workers that share what they can say and store exactly what workers do that share nothing, whatever happens.

Nor does it matter that events wait for others before those who share take them in.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.jobs.versions import Compiled, Version, Versions, has_same_states
from elf.agents.worker.paos import Paos, decode_open, with_tables
from elf.agents.worker.payload import Notes, unpack
from elf.agents.worker.sharing.workers import Workers
from elf.agents.worker.state import Progress, Snapshot, WorkerState
from elf.agents.worker.worker import Worker
from elf.overlay.contract import Verdict
from tests.agents.plans import COLUMNS, events, plan_of

QUERY = (
    "SELECT product, count(*) AS n, sum(cents) AS cents FROM clicks WHERE cents <> 3 GROUP BY product, window(ts, {})"
)
TWO, SIX = "'2 seconds'", "'6 seconds', '2 seconds'"
WHOLE = plan_of(QUERY.format(TWO), options="trees = 2")
PLANS = {
    "first": plan_of(QUERY.format(TWO)),
    "twin": plan_of(QUERY.format(TWO) + " ORDER BY n"),
    "longer": plan_of(QUERY.format(SIX) + " HAVING count(*) > 1", lateness_ms=3_000, options='straggler = "drop"'),
    "fast": plan_of(QUERY.format(TWO) + " LIMIT 1", options='semantics = "at-most-once"\nstraggler = "void"'),
    "early": plan_of(QUERY.format(TWO), lateness_ms=1_000, options='semantics = "at-least-once"'),
    "filtered": plan_of("SELECT max(cents) AS most FROM clicks WHERE (cents) <> 3 GROUP BY window(ts, '4 seconds')"),
    "other": plan_of("SELECT product, count(*) AS n FROM clicks GROUP BY product, window(ts, '2 seconds')"),
    "part0": WHOLE,
    "part1": msgspec.structs.replace(WHOLE, definition=msgspec.structs.replace(WHOLE.definition, part=1)),
}
NAMES = list(PLANS)
#: What jobs of one tree can be changed to: some of it maps as another job does, some as the job did before.
QUERIES = [QUERY.format(TWO), QUERY.format(SIX), QUERY.format(TWO).replace("<> 3", "> 1")]
FAILING, FAILING_FILTER = 13, 14


def fragile(patch: pytest.MonkeyPatch) -> None:
    """Let mapping fail on some events, and filters on others."""
    mapped, wanted = Plan.mapped, Plan.wanted

    def maps(plan: Plan, frame: pl.DataFrame) -> pl.DataFrame:
        if len(plan.schema.aggregates) == 2 and (frame["cents"] == FAILING).any():
            raise ValueError("poison")
        return mapped(plan, frame)

    def keeps(plan: Plan, frame: pl.DataFrame, columns: Collection[str] = ()) -> pl.DataFrame:
        if plan.filter_key is not None and (frame["cents"] == FAILING_FILTER).any():
            raise ValueError("poison")
        return wanted(plan, frame, columns)

    patch.setattr(Plan, "mapped", maps)
    patch.setattr(Plan, "wanted", keeps)


class World:
    """The jobs' workers at one agent: all of them in one crew, or each in its own, where no event waits for others."""

    def __init__(self, *, together: bool) -> None:
        self._together = together
        crew = Workers()
        self.crews = {name: crew if together else Workers() for name in NAMES}
        self.versions = {name: Versions.of(plan) for name, plan in PLANS.items()}
        self.sealed: dict[str, list[Snapshot]] = {name: [] for name in NAMES}
        self.read_ms: int | None = None
        #: What is on disk beside workers' rows.
        self.tables: dict[str, dict[int, bytes]] = {name: {} for name in NAMES}
        for name in NAMES:
            self.crews[name][name.encode()] = self._new(name)

    def _new(self, name: str) -> Worker:
        worker = Worker(self.versions[name], "w1", tree=name.encode(), new=True)
        worker.begin(None if self.read_ms is None else self.read_ms // worker.plan.interval_ms + 1)
        return worker

    def _all(self) -> list[Workers]:
        return list({id(crew): crew for crew in self.crews.values()}.values())

    def _worker(self, name: str) -> Worker | None:
        return self.crews[name].get(name.encode())

    def insert(self, rows: Sequence[tuple[int, str | None, int]]) -> None:
        for crew in self._all():
            crew.insert(events(rows))
            if not self._together:
                crew.take_in()
        self.read_ms = max([self.read_ms or 0, *(at_ms for at_ms, _, _ in rows)])

    def seal(self, watermark_ms: int) -> list[object]:
        found = {tree.decode(): each for crew in self._all() for tree, each in crew.seal(watermark_ms).items()}
        for name, snapshots in found.items():
            self.sealed[name] += snapshots
        return [(name, [self.told(name, each) for each in found[name]]) for name in sorted(found)]

    def store(self, last: bool) -> list[object]:
        """Make a checkpoint; return what it holds of each job that has changed."""
        states = [each for crew in self._all() for each in crew.states({tree: () for tree in crew}, last=last)]
        return sorted((self.stored(each) for each in states), key=repr)

    def settle(self, name: str, through: int, missing: bool, named: bool) -> None:
        worker, held = self._worker(name), self.sealed[name]
        if worker is not None and held and worker.progress.settled != held[-1].through:
            before = -1 if worker.progress.settled is None else worker.progress.settled
            run = [each for each in held if before < each.through][: through + 1]
            if run:
                verdict = Verdict(before, run[-1].through, missing=missing, named=named)
                self.crews[name].settle(name.encode(), verdict, run if missing else ())

    def change(self, name: str, what: Any, query: str, ahead: int) -> None:
        versions, worker = self.versions[name], self._worker(name)
        newest = versions.newest
        what = "resume" if newest.version.is_paused else what
        if newest.plan.definition.options.trees > 1 or name == "filtered" or len(versions.all) > 9:
            return
        number, definition = newest.version.number + 1, newest.version.definition
        if what == "update":
            definition = msgspec.structs.replace(definition, query=query)
        definition = msgspec.structs.replace(definition, version=number)
        plan = compile_job(definition, COLUMNS)
        same = has_same_states(newest.plan, plan)
        since = max(newest.version.since, (self.read_ms or 0) // plan.interval_ms + ahead)
        version = Version(
            number=number,
            definition=definition,
            what=what,
            since=since,
            begins=newest.version.begins if same else since,
            pao_kind=newest.version.pao_kind if same else number,
        )
        self.versions[name] = Versions([*versions.all, Compiled(version, plan)])
        if worker is not None:
            unread = None if self.read_ms is None else self.read_ms // plan.interval_ms + 1
            self.crews[name].adopt(name.encode(), self.versions[name], unread)

    def note_gap(self, after_ms: int, before_ms: int) -> None:
        for crew in self._all():
            crew.note_gap(after_ms, before_ms)

    def take_in(self) -> None:
        for crew in self._all():
            crew.take_in()

    def part_with(self, name: str) -> None:
        self.crews[name].part_with(name.encode())

    def attach(self, name: str) -> None:
        if self._worker(name) is None:
            self.crews[name][name.encode()] = self._new(name)

    def restart(self, name: str) -> None:
        worker = self._worker(name)
        if worker is not None:
            self.take_in()
            state = self.on_disk(worker.state(self.sealed[name], last=True))
            self.part_with(name)
            self.crews[name][name.encode()] = Worker.restore(self.versions[name], "w1", state)

    # ---- what there is

    def told(self, name: str, snapshot: Snapshot) -> object:
        if snapshot.payload is None:
            return snapshot.through, None
        notes, paos = unpack(snapshot.payload, self.versions[name])
        return snapshot.through, plain(notes), rows_of(paos)

    def on_disk(self, state: WorkerState) -> WorkerState:
        """Store a state; return it as it is read back."""
        name = state.tree.decode()
        if state.tables is not None:
            held = {**self.tables[name], **state.tables.new}
            self.tables[name] = {number: held[number] for number in state.tables.numbers}
        return msgspec.structs.replace(
            state, open_block=with_tables(state.open_block, self.tables[name].__getitem__), tables=None
        )

    def stored(self, state: WorkerState) -> object:
        state, name = self.on_disk(state), state.tree.decode()
        versions, snapshots = self.versions[name], [self.told(name, each) for each in state.sealed]
        paos = decode_open(state.open_block, versions)
        return name, plain(state.progress), rows_of(paos.merged(versions)), snapshots

    def progress(self) -> list[object]:
        workers = [(name, self._worker(name)) for name in NAMES]
        return [
            (name, plain(each.progress), each.dirty, sorted(each.open)) for name, each in workers if each is not None
        ]

    def check(self) -> None:
        """Check that trees know their holders."""
        for crew in self._all():
            held = [(worker.open, at, worker.open.tree_of(at)) for worker in crew.values() for at in worker.open]
            for own, at, tree in held:
                assert tree is not None and own in tree.holders
                assert tree.holders == {other for other, _, each in held if each is tree}
                assert all(other.tree_of(at) is tree for other in tree.holders)


def plain(told: Progress | Notes) -> object:
    """Return an account with its gaps interval by interval: what fails together is one gap, else it is more."""
    gaps = {each for first, last in told.gaps for each in range(first, last + 1)}
    return {**msgspec.structs.asdict(told), "gaps": gaps}


def rows_of(paos: Paos) -> list[object]:
    return sorted(((kind, row) for kind, frame in paos.parts for row in frame.rows()), key=repr)


LAST_MS = 10_000
times_ms = st.integers(0, LAST_MS)
frames = st.lists(
    st.tuples(times_ms, st.none() | st.sampled_from("ab"), st.integers(0, 3)), min_size=1, max_size=8
) | st.lists(st.tuples(times_ms, st.just("a"), st.sampled_from([2, FAILING, FAILING_FILTER])), min_size=1, max_size=3)
names = st.sampled_from(NAMES)
lone = st.sampled_from(["first", "twin", "longer", "fast", "early"])
steps = st.one_of(
    st.tuples(st.just("insert"), frames),
    st.tuples(st.just("insert"), frames),
    st.tuples(st.just("seal"), times_ms),
    st.tuples(st.just("settle"), names, st.integers(0, 3), st.booleans(), st.booleans()),
    st.tuples(st.just("settle"), lone, st.integers(0, 3), st.just(True), st.booleans()),
    st.tuples(st.just("store"), st.booleans()) | st.just(("take_in",)),
    st.tuples(st.just("note_gap"), times_ms, times_ms),
    st.tuples(
        st.just("change"),
        lone,
        st.sampled_from(["update", "update", "pause", "reset"]),
        st.sampled_from(QUERIES),
        st.integers(-3, 1),
    ),
    st.tuples(st.just("part_with"), names) | st.tuples(st.just("attach"), names) | st.tuples(st.just("restart"), names),
)


#: Before anything else, so that there is something to share, and to be late for.
BEGINNING: list[tuple[Any, ...]] = [
    ("insert", [(at_ms, "a", 1) for at_ms in range(0, LAST_MS, 1_000)]),
    ("seal", LAST_MS // 2),
    ("insert", [(at_ms, "b", 2) for at_ms in range(0, LAST_MS, 1_000)]),
]


@given(told=st.lists(steps, min_size=6, max_size=12).map(lambda steps: [*BEGINNING, *steps]), last=st.booleans())
@settings(max_examples=20, deadline=None)
def test_sharing_changes_nothing_that_anybody_is_told(told: list[tuple[Any, ...]], last: bool) -> None:
    together, apart = World(together=True), World(together=False)
    with pytest.MonkeyPatch.context() as patch:
        fragile(patch)
        for what, *given_ in told:
            assert getattr(together, what)(*given_) == getattr(apart, what)(*given_)
            if what in ("store", "take_in", "note_gap"):
                assert together.progress() == apart.progress()
            together.check()
        assert together.store(last) == apart.store(last)
        assert together.seal(10**6) == apart.seal(10**6)
        assert together.store(True) == apart.store(True)
        together.check()
