"""A stand-in for a job's master: answers any window of the shop's top ten from events, some of which it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import polars as pl

from elf.agents.archive.place import Place
from elf.agents.errors import JobError
from elf.demo.clicks import START_MS
from elf.offline.asking import JobText
from elf.offline.progress import Steps
from elf.offline.verify.plain import PlainVerification
from elf.offline.verify.report import Report
from elf.offline.verify.versions import Countings, Job
from elf.offline.verify.windows import Asker
from tests.elf.offline.conftest import Shop

QUERY = """SELECT product, count(*) AS clicks, avg(rating) AS mean, max(ts) AS newest FROM clicks
WHERE event = 'click' AND category = 'Video Games'
GROUP BY product, window(ts, '30 seconds', '10 seconds') ORDER BY clicks DESC LIMIT 10"""
COLUMNS = {"event": "STRING", "category": "STRING", "product": "STRING", "rating": "DOUBLE"}
JOB = JobText("shop", "top", "clicks", QUERY, COLUMNS)
SIZE_MS, STEP_MS = 30_000, 10_000
Result = dict[str, Any]
#: The name of each agent, and the number of its interval since `START_MS`.
Missing = set[tuple[str, int]]


def result_of(events: pl.DataFrame, start_ms: int, end_ms: int | None = None, **label: Any) -> Result:
    """The Result an agent would publish, computed by Polars."""
    end_ms = start_ms + SIZE_MS if end_ms is None else end_ms
    at_ms = pl.col("ts").dt.epoch("ms")
    newest = pl.col("ts").max().dt.to_string("%Y-%m-%dT%H:%M:%S%.3fZ").alias("newest")
    top = (
        events.filter(at_ms >= start_ms, at_ms < end_ms, event="click", category="Video Games")
        .group_by("product")
        .agg(pl.len().alias("clicks"), pl.col("rating").mean().alias("mean"), newest)
        .sort("clicks", "product", descending=[True, False])
        .head(10)
    )
    kinds = ("STRING", "BIGINT", "DOUBLE", "TIMESTAMP")
    completeness = {"expected": 2, "reported": 2, "missing": [], "late": 0, "shed": 0, "gaps": 0, "revision": 0}
    return {
        "job": JOB.key,
        "window": {"start_ms": start_ms, "end_ms": end_ms},
        "columns": [{"name": name, "type": kind} for name, kind in zip(top.columns, kinds, strict=True)],
        "rows": top.to_dicts(),
        "completeness": completeness | {"status": "final"} | label,
    }


def verify(job: Job, folders: Sequence[Place], results: Iterable[Result], countings: Countings | None = None) -> Report:
    """Verify results that nobody has to be asked for."""
    plain = PlainVerification(job, countings or Countings(job), folders, Asker(), "local[*]", None, Steps())
    return plain.run(results)


class Master:
    """Answers for the shop's agents `web-1` and `web-2`.

    Args:
        shop: the archive.
        missing: whose intervals its labels name.
        counted: of the events of these intervals, those that are counted all the same.
        tamper: changes results on their way.
    """

    def __init__(
        self,
        shop: Shop,
        missing: Missing = frozenset(),  # type: ignore[assignment]
        counted: pl.Expr | None = None,
        tamper: Callable[[Result], None] = lambda result: None,
    ) -> None:
        self._missing, self._tamper = missing, tamper
        self.asked: list[str] = []
        half = shop.events.height // 2
        agent = pl.when(pl.int_range(pl.len()) < half).then(pl.lit("web-1")).otherwise(pl.lit("web-2"))
        interval = (pl.col("ts").dt.epoch("ms") - START_MS) // STEP_MS
        lacking = pl.any_horizontal(
            pl.lit(False), *((agent == name) & (interval == number) for name, number in sorted(missing))
        )
        kept = ~lacking if counted is None else ~lacking | counted
        self._events = shop.events.filter(kept)

    def job(self, name: str) -> dict[str, Any]:
        return {
            "creator": "shop",
            "name": "top",
            "source": "clicks",
            "query": QUERY,
            "columns": COLUMNS,
            "window": {"size_ms": SIZE_MS, "slide_ms": STEP_MS},
            "interval_ms": STEP_MS,
            "through_ms": START_MS + 110_000,
            "oldest_ms": START_MS,
            "expired_ms": START_MS,
            "roster": ["web-1", "web-2"],
            "agents": {"web-1": "web-1", "web-2": "web-2"},
        }

    def query(self, name: str, *, window: str, limit: int | None = None) -> Result:
        self.asked.append(window)
        start_ms, end_ms = map(int, window.split("/"))
        if (start_ms - START_MS) % STEP_MS or (end_ms - START_MS) % STEP_MS:
            raise JobError("not whole intervals")
        numbers = range((start_ms - START_MS) // STEP_MS, (end_ms - START_MS) // STEP_MS)
        missing = sorted({agent for agent, number in self._missing if number in numbers})
        status = "final_incomplete" if missing else "final"
        label = {"missing": missing, "reported": 2 - len(missing), "status": status}
        result = result_of(self._events, start_ms, end_ms, **label)
        if limit is None:
            self._tamper(result)
        return result
