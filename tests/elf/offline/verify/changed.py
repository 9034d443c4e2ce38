"""A real master of a job that was changed while it ran, fed with the shop's events as its two agents count them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import msgspec
import polars as pl

from elf.agents.jobs.definition import Definition
from elf.agents.jobs.versions import Version, compile_versions
from elf.agents.master.backfill import check_load, describe
from elf.agents.master.commands import Load
from elf.agents.master.master import Master
from elf.agents.master.version_decision import described
from elf.agents.store.database import Database
from elf.agents.store.panes import Panes
from elf.agents.worker.paos import Paos
from elf.agents.worker.payload import Notes, pack
from elf.cbt import INTERVAL
from elf.client.results import Intervals
from elf.demo.clicks import START_MS
from elf.overlay.contract import NEVER, Commit, RollupState, RosterEntry
from elf.overlay.group.messages import Place
from tests.elf.offline.conftest import Shop
from tests.elf.offline.verify.master import QUERY, STEP_MS, Result

#: The first interval with events; there are twelve.
FIRST, COUNT = START_MS // STEP_MS, 12
AGENTS = ("web-1", "web-2")
FEW = QUERY.replace("LIMIT 10", "LIMIT 3")
BOUGHT = """SELECT category, count(*) AS n, max(price_cents) AS most FROM clicks WHERE event = 'buy'
GROUP BY category, window(ts, '20 seconds', '10 seconds') ORDER BY category"""


def version(
    number: int, what: Any, query: str, since: int | None, begins: int | None, kind: int, shift: int = 0
) -> Version:
    """Make a version; intervals are counted from `FIRST`, `shift` is its definition's."""
    types = {"event": "STRING", "category": "STRING", "product": "STRING", "rating": "DOUBLE", "price_cents": "BIGINT"}
    columns = {name: kind for name, kind in types.items() if name in query}
    definition = Definition(
        name="top", creator="shop", source="clicks", query=query, columns=columns, version=number, shift=shift
    )
    at = (NEVER if each is None else FIRST + each for each in (since, begins))
    return Version(number=number, definition=definition, what=what, since=next(at), begins=next(at), pao_kind=kind)


#: Only LIMIT is another with 2; 3 counts something else; of 4's interval nothing is counted; 6 empties the windows.
HISTORY = (
    version(1, "publish", QUERY, None, None, 0),
    version(2, "update", FEW, 3, None, 0),
    version(3, "update", BOUGHT, 5, 5, 3),
    version(4, "pause", BOUGHT, 7, 5, 3),
    version(5, "resume", BOUGHT, 8, 5, 3),
    version(6, "reset", BOUGHT, 10, 10, 6),
)


class Changed:
    """Answers for a job's agents.

    Args:
        folder: for its panes.
        shop: the archive.
        history: the job's versions.
        told: agent -> version -> the interval (from `FIRST` on) since which it counts by it, if later than all others;
            of those before, some events were read when it knew.
        tamper: changes results on their way, but not labels of parts.
    """

    def __init__(
        self,
        folder: Path,
        shop: Shop,
        history: Iterable[Version] = HISTORY,
        told: dict[str, dict[int, int]] | None = None,
        tamper: Callable[[Result], None] = lambda result: None,
    ) -> None:
        self.versions, self._tamper = compile_versions(tuple(history)), tamper
        self._told = {name: {at: FIRST + i for at, i in each.items()} for name, each in (told or {}).items()}
        self.known = [each.version for each in self.versions.all]
        self._database = Database(folder / "state.db")
        store = Panes(self._database)
        store.create(self.versions.newest.plan.definition.app_id, b"job", b"")
        self.master = Master(self.versions, store, None)
        half = shop.events.height // 2
        self._events = dict(zip(AGENTS, (shop.events[:half], shop.events[half:]), strict=True))
        for interval in range(FIRST, FIRST + COUNT):
            self._commit(interval)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def _commit(self, interval: int) -> None:
        by, plan = self.versions.at(interval)
        frames, since = [plan.schema.empty()], {}
        for agent, events in self._events.items():
            told = self._told.get(agent, {})
            since[agent] = {
                each.number: told.get(each.number, each.since)
                for each in self.known
                if each.is_told and each.since <= interval
            }
            span_ms = self.versions.start_ms(interval), self.versions.end_ms(interval) - 1
            inside = events.filter(pl.col("ts").dt.epoch("ms").is_between(*span_ms))
            if told.get(by.number, NEVER) > interval:
                inside = inside.filter(pl.col("price_cents") % 3 == 0)
            frames.append(plan.reduce(inside.head(0) if by.is_paused else inside))
        rows = pl.concat(frames).filter(pl.col(INTERVAL) == interval)
        payload = pack(Notes(since=since), Paos([(by.pao_kind, plan.schema.merge([rows]))]))
        state = RollupState(committed=interval, roster={agent: RosterEntry(NEVER) for agent in AGENTS})
        previous = self.master.state.rollup.committed
        self.master.commit(
            Commit(previous, interval, payload, AGENTS, (), state), Place(1, self.master.state.applied.index + 1)
        )

    def job(self, name: str) -> dict[str, Any]:
        newest, untils = self.known[-1].definition, [*(each.since for each in self.known[1:]), None]
        plan = self.master.windows.plan
        return {
            "creator": "shop",
            "name": "top",
            "source": "clicks",
            "query": newest.query,
            "columns": newest.columns,
            "window": None if plan.window is None else plan.window._asdict(),
            "interval_ms": plan.interval_ms,
            "through_ms": self.master.windows.through_ms,
            "oldest_ms": self.master.windows.oldest_ms,
            "expired_ms": self.master.windows.expired_ms,
            "roster": list(AGENTS),
            "agents": {agent: agent for agent in AGENTS},
            "options": msgspec.to_builtins(newest.options),
            "backfill": describe(self.versions, self.master.state, "i", str),
            "versions": [
                described(each, until, by.numbering)
                for (each, by), until in zip(self.versions.all, untils, strict=True)
            ],
        }

    def load(self, name: str, intervals: Intervals) -> None:
        load = Load(intervals.first, intervals.last, intervals.block, tuple(intervals.missing))
        check_load(self.versions, self.master.state, load)
        self.master.load(load, Place(1, self.master.state.applied.index + 1))

    def query(self, name: str, *, window: str, limit: int | None = None) -> Result:
        windows = self.master.windows
        found: Result = msgspec.to_builtins(windows.result(windows.resolve(window), None, limit, str))
        if limit is None:
            self._tamper(found)
        return found


def window(first: int, end: int) -> str:
    """The text of a window, by intervals from `FIRST` on."""
    return f"{(FIRST + first) * STEP_MS}/{(FIRST + end) * STEP_MS}"
