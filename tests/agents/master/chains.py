"""A job that reads its last result at its masters, fed as their root group would, and what is true of it."""

from __future__ import annotations

import pathlib

import polars as pl

from elf.agents.jobs.definition import Definition, Options
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.language.types import SqlType
from elf.agents.master.master import Master
from elf.agents.master.results import Result, Span
from elf.agents.store.database import Database
from elf.agents.store.panes import Panes
from elf.agents.worker.payload import Notes, pack
from elf.overlay.contract import NEVER, Commit, RollupState, RosterEntry
from elf.overlay.group.messages import Place

#: (second, from, to).
Edge = tuple[int, str, str]
COLUMNS = {"src": SqlType.STRING, "dst": SqlType.STRING}
LABELS = """
SELECT e.dst AS node, min(coalesce(r.label, e.src)) AS label FROM edges e LEFT JOIN last_result r ON e.src = r.node
GROUP BY e.dst, window(ts, '4 seconds', '1 second')
"""
SIZE = 4


def plan_of(query: str = LABELS, retain_ms: int | None = 6_000) -> Plan:
    options = Options(retain_ms=retain_ms)
    return compile_job(Definition(name="job", creator="me", source="edges", query=query, options=options), COLUMNS)


def edges(rows: list[Edge]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, {"ts": pl.Int64, "src": pl.String, "dst": pl.String}, orient="row")
    return frame.with_columns((pl.col("ts") * 1_000).cast(pl.Datetime("ms")))


def chained(rows: list[Edge], end: int, begins: int = NEVER) -> dict[str, str]:
    """The labels of the window that ends at a second, computed from the first event that counts on, one by one."""
    last: dict[str, str] = {}
    rows = [edge for edge in rows if edge[0] >= begins]
    for until in range(min([at for at, _, _ in rows], default=end) + 1, end + 1):
        inside = [edge for edge in rows if until - SIZE <= edge[0] < until]
        last = {dst: min(last.get(a, a) for _, a, b in inside if b == dst) for dst in {dst for _, _, dst in inside}}
    return last


class Root:
    """Feeds masters as their root group would: the first is asked, the second only keeps up."""

    def __init__(self, folder: pathlib.Path, plan: Plan) -> None:
        self.plan, self.folder, self.index = plan, folder, 1
        self.databases = []
        self.masters: list[Master] = []
        for name in ("first", "second"):
            (folder / name).mkdir()
            database = Database(folder / name / "state.db")
            self.databases.append(database)
            Panes(database).create(plan.definition.app_id, b"job", b"")
            self.masters.append(Master(plan, Panes(database), None))
        self.rows: list[Edge] = []

    def retaining(self, retain_ms: int) -> None:
        self.plan = plan_of(retain_ms=retain_ms)
        self.masters = [Master(self.plan, Panes(database), None) for database in self.databases]

    def commit(
        self,
        through: int,
        rows: list[Edge],
        missing: tuple[str, ...] = (),
        notes: Notes | None = None,
        roster: tuple[str, ...] = ("w1", "w2"),
    ) -> None:
        previous = self.masters[0].state.rollup.committed
        entries = {agent: RosterEntry(admitted=NEVER) for agent in roster}
        state = RollupState(committed=through, roster=entries)
        reported = tuple(agent for agent in roster if agent not in missing)
        payload = pack(notes or Notes(), self.plan.reduce(edges(rows)))
        self.index += 1
        for master in self.masters:
            master.commit(Commit(previous, through, payload, reported, missing, state), Place(1, self.index))
        self.rows += rows

    def restart(self) -> None:
        for number, database in enumerate(self.databases):
            ((_, _, state),) = Panes(database).masters()
            versions = self.masters[number].versions
            # What the record of a job that was never changed says.
            self.masters[number] = Master(versions if len(versions.all) > 1 else self.plan, Panes(database), state)

    def result(self, end: int, which: int = 0) -> Result:
        return self.masters[which].windows.result(Span((end - SIZE) * 1_000, end * 1_000), None, None, str)

    def answerable(self) -> range:
        master = self.masters[0]
        first = min([at for at, _, _ in self.rows], default=0)
        return range(max(first, master.windows.expired + 1 + SIZE), (master.windows.through_ms or 0) // 1_000 + 1)

    def close(self) -> None:
        for database in self.databases:
            database.close()


def rows_of(result: Result) -> dict[str, str]:
    return {row["node"]: row["label"] for row in result.rows}
