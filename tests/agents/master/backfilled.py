"""A master that is fed as the overlay and the archive would feed it, and jobs that were changed."""

from __future__ import annotations

import pathlib
from collections import Counter
from typing import Self

import polars as pl
from msgspec.structs import replace

from elf.agents.completeness.tallies import Tallies
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.master.commands import Load
from elf.agents.master.master import Master
from elf.agents.master.results import Span
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, Panes
from elf.agents.wire.positions import Json
from elf.agents.worker.paos import Paos
from elf.agents.worker.payload import Notes, pack
from elf.cbt import encode
from elf.overlay.contract import NEVER, Commit, RollupState, RosterEntry
from elf.overlay.group.messages import Place
from tests.agents.plans import events, plan_of

#: Intervals are 2 s.
SUMMED = plan_of()
MAXIMAL = plan_of(
    """SELECT product, count(*) AS n, max(cents) AS cents FROM clicks
    GROUP BY product, window(ts, '4 seconds', '2 seconds') ORDER BY product"""
)
#: Agents have all events from here on.
BEGUN = 40
Rows = list[tuple[int, str]]
Answer = dict[str, int]


class Job:
    """A master fed as the overlay and the archive would feed it, and what its intervals should hold."""

    def __init__(self, folder: pathlib.Path, job: Plan | Versions = SUMMED) -> None:
        self.versions, self._database = Versions.of(job), Database(folder / "state.db")
        self.plan = self.versions.all[0].plan
        self.store = Panes(self._database)
        self.store.create(self.plan.definition.app_id, b"job", b"")
        self.master = Master(self.versions, self.store, None)
        self.held: dict[int, Counter[str]] = {}
        self.backfilled: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def commit(
        self, through: int, rows: Rows, begun: int | None = BEGUN, since: dict[str, dict[int, int]] | None = None
    ) -> None:
        """Rows are of (interval, product); `since`: what agents tell of versions."""
        previous = self.master.state.rollup.committed
        notes = Notes(partial_before={} if begun is None else {"w1": begun - 2, "w2": begun}, since=since or {})
        state = RollupState(committed=through, roster={agent: RosterEntry(NEVER) for agent in ("w1", "w2")})
        paos = Paos((self.versions.at(row[0]).version.pao_kind, self.frame([row])) for row in rows)
        commit = Commit(previous, through, pack(notes, paos.merged(self.versions)), ("w1", "w2"), (), state)
        self.master.commit(commit, self.next_place())
        for interval, product in rows:
            if interval not in self.backfilled:
                self.held.setdefault(interval, Counter())[product] += 1

    def note(self, through: int, notes: Notes) -> None:
        """Commit what agents have to say, and no rows."""
        previous = self.master.state.rollup.committed
        state = RollupState(committed=through, roster={agent: RosterEntry(NEVER) for agent in ("w1", "w2")})
        payload = pack(notes, self.plan.schema.empty())
        self.master.commit(Commit(previous, through, payload, ("w1", "w2"), (), state), self.next_place())

    def load(
        self, first: int, last: int, rows: Rows, missing: tuple[str, ...] = (), mistyped: Tallies | None = None
    ) -> None:
        load = Load(first, last, encode(self.frame(rows)), missing, mistyped or {})
        self.master.load(load, self.next_place())
        for interval in range(first, last + 1):
            self.held[interval] = Counter(product for at, product in rows if at == interval)
            self.backfilled.add(interval)

    def frame(self, rows: Rows) -> pl.DataFrame:
        plan = self.versions.at(rows[0][0]).plan if rows else self.master.windows.plan
        return plan.reduce(events([(self.versions.start_ms(interval), product, 3) for interval, product in rows]))

    def next_place(self) -> Place:
        return Place(1, self.master.state.applied.index + 1)

    def restart(self) -> None:
        ((_, _, state),) = self.store.masters()
        self.master = Master(self.versions, self.store, state)

    def lose(self, kind: Kind) -> None:
        """Damage the disk: all blocks of a kind are gone."""
        with self._database.transaction() as sql:
            sql.execute("DELETE FROM history WHERE kind = ?", (kind,))

    def ask(self, first: int, last: int) -> Json:
        result = self.master.windows.result(Span(2_000 * first, 2_000 * (last + 1)), None, None, str)
        return {"rows": {row["product"]: row["n"] for row in result.rows}, **result.completeness}

    def expected(self, first: int, last: int) -> Answer:
        return dict(sum((self.held.get(interval, Counter()) for interval in range(first, last + 1)), Counter()))


#: What a version may be changed to.
FEWER = plan_of("SELECT product, count(*) AS n FROM clicks GROUP BY product, window(ts, '4 seconds', '2 seconds')")


def history(*versions: tuple[str, Plan, int, int, int]) -> Versions:
    """Versions from what made them, plan, first interval, first interval of their windows and kind of PAOs."""
    compiled = []
    for number, (what, plan, since, begins, kind) in enumerate(versions, 1):
        definition = replace(plan.definition, version=number)
        made = Version(
            number=number, definition=definition, what=what, since=since, begins=begins, pao_kind=kind  # type: ignore[arg-type]
        )  # fmt: skip
        compiled.append(Compiled(made, plan))
    return Versions(compiled)
