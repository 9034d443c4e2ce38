"""Backfill beside plain Spark SQL on the same files: events a second from the archive to blocks that can be loaded.

Both read the same Parquet files of two agents and group them by interval and key in the same session. Plain Spark keeps
its rows, as Parquet, as whoever asks has to, and once more drops them; backfill computes states, writes them, reads
them and packs them as a master takes them. What the master does with them is not in it. One round each, in turns; the
best of the rounds counts, by time and by CPU. With `--workers` a Spark cluster of its own on this machine computes the
same once more, and has to give the same.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import polars as pl  # noqa: E402
from ending import end_in_order  # noqa: E402
from spark_cluster import standalone  # noqa: E402

from elf.agents.archive.archive import Archive  # noqa: E402
from elf.agents.jobs.definition import Definition  # noqa: E402
from elf.agents.jobs.plan import compile_job  # noqa: E402
from elf.cbt import decode  # noqa: E402
from elf.client.results import Intervals  # noqa: E402
from elf.demo.clicks import START_MS, generate  # noqa: E402
from elf.offline.backfill.run import run_backfill  # noqa: E402
from elf.offline.events import find_files  # noqa: E402
from elf.offline.session import open_session  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DROPPED, KEPT = "plain Spark, rows dropped", "plain Spark, rows kept"
AGENTS = 2
INTERVAL_MS = 10_000
FILE_ROWS = 500_000
COLUMNS = {"event": "STRING", "category": "STRING", "product": "STRING", "user": "STRING", "price_cents": "BIGINT"}
QUERY = """SELECT product, count(*) AS n, sum(price_cents) AS cents, max(price_cents) AS most FROM clicks
WHERE event = 'click' GROUP BY product, window(ts, '60 seconds', '10 seconds')"""


class Sink:
    """Stands for the agent that is asked: it describes a job whose agents lack everything, and drops what is loaded."""

    def __init__(self, until_ms: int) -> None:
        self.until_ms = until_ms
        self.blocks: list[bytes] = []
        agents = [{"agent": f"a{number}", "name": f"a{number}", "through_ms": until_ms} for number in range(AGENTS)]
        known = {"instance": "i", "first_ms": 0, "until_ms": until_ms, "agents": agents}
        job = {"creator": "bench", "name": "top", "source": "clicks", "query": QUERY, "columns": COLUMNS, "options": {}}
        window = {"size_ms": 60_000, "slide_ms": INTERVAL_MS}
        self._job = {**job, "interval_ms": INTERVAL_MS, "window": window, "backfill": known}

    def job(self, name: str) -> Mapping[str, Any]:
        """Describe the job."""
        return self._job

    def load(self, name: str, intervals: Intervals) -> None:
        """Keep what would be loaded."""
        self.blocks.append(intervals.block)

    def rows(self) -> pl.DataFrame:
        """Return all that would be loaded, in an order that depends on nothing else."""
        definition = Definition(name="top", creator="bench", source="clicks", query=QUERY, columns=COLUMNS)
        schema = compile_job(definition, definition.types).schema
        return pl.concat(decode(block, schema) for block in self.blocks).sort(pl.all())


def make_archives(folder: pathlib.Path, events: int, rate_per_s: int) -> list[pathlib.Path]:
    """Write archives of so many events, so many a second over all agents, unless they are there."""
    folders = [folder / f"a{number}" for number in range(AGENTS)]
    done = folder / "done"
    if done.exists():
        return folders
    shutil.rmtree(folder, ignore_errors=True)
    at = pl.col("ts").str.to_datetime("%Y-%m-%dT%H:%M:%S%.3fZ", time_unit="ms")
    for number, own in enumerate(folders):
        archive = Archive(own, "clicks", f"a{number}", rows_max=FILE_ROWS)
        sequence = waiting = 0
        for chunk in generate(number, events // AGENTS, START_MS, rate_per_s / AGENTS):
            frame = pl.read_ndjson(chunk).with_columns(at).select("ts", *COLUMNS)
            archive.append(frame)
            waiting += frame.height
            if waiting >= FILE_ROWS:
                archive.prepare(sequence)
                archive.commit(sequence)
                sequence, waiting = sequence + 1, 0
        archive.prepare(sequence)
        archive.commit(sequence)
    done.touch()
    return folders


def plain(spark: SparkSession, folders: list[pathlib.Path], until_ms: int, kept: pathlib.Path | None = None) -> None:
    """The query over all intervals, as anybody would write it in Spark; its rows are dropped, or kept in a folder."""
    from pyspark.sql import functions as F

    paths = [str(file.path) for file in find_files(folders, "clicks", 0, until_ms)]
    rows = spark.read.parquet(*paths).filter(F.col("event") == "click")
    grouped = rows.groupBy(F.window("ts", f"{INTERVAL_MS} milliseconds"), "product").agg(
        F.count(F.lit(1)), F.sum("price_cents"), F.max("price_cents")
    )
    if kept is None:
        grouped.write.format("noop").mode("overwrite").save()
    else:
        grouped.write.mode("overwrite").parquet(str(kept))


@contextlib.contextmanager
def measured(spark: SparkSession, best: dict[str, tuple[float, float]], name: str) -> Iterator[None]:
    """Note the seconds of a block, and the CPU seconds of this process and its JVM, each if none were fewer."""
    jvm = pathlib.Path(f"/proc/{spark._jvm.java.lang.ProcessHandle.current().pid()}/stat")  # type: ignore[union-attr]

    def now() -> tuple[float, float]:
        ticks = sum(map(int, jvm.read_text().rpartition(")")[2].split()[11:13]))
        return time.monotonic(), time.process_time() + ticks / os.sysconf("SC_CLK_TCK")

    began = now()
    yield
    taken = tuple(end - begin for begin, end in zip(began, now(), strict=True))
    best[name] = min(best[name][0], taken[0]), min(best[name][1], taken[1])


def main() -> None:
    """Measure and print."""
    end_in_order()
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--rate", type=int, default=1_000, help="events a second: what an interval's rows are made of")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]", help="Spark's master")
    parser.add_argument("--workers", type=int, default=0, help="of a cluster that computes the same once more")
    arguments = parser.parse_args()
    made = ROOT / ".bench" / f"offline-{arguments.events}-{arguments.rate}"
    folders = make_archives(made, arguments.events, arguments.rate)
    newest_ms = max(file.entry.last_ms for file in find_files(folders, "clicks"))
    until_ms = (newest_ms // INTERVAL_MS + 1) * INTERVAL_MS
    spark = open_session(arguments.master)
    best = dict.fromkeys((DROPPED, KEPT, "backfill"), (float("inf"), float("inf")))
    # Each once before any counts: the first run of each compiles its code and, of all, brings the files into memory.
    plain(spark, folders, until_ms)
    plain(spark, folders, until_ms, made / "kept")
    done = run_backfill(Sink(until_ms), "top", 0, folders, arguments.master)
    for _ in range(arguments.rounds):
        for name, kept in ((DROPPED, None), (KEPT, made / "kept")):
            with measured(spark, best, name):
                plain(spark, folders, until_ms, kept)
        sink = Sink(until_ms)
        with measured(spark, best, "backfill"):
            done = run_backfill(sink, "top", 0, folders, arguments.master)
    assert done.events == arguments.events, done
    packed = sum(map(len, sink.blocks))
    print(f"{done.events:,} events, {done.intervals:,} intervals, {done.rows:,} rows, {packed:,} bytes")
    for name, (seconds, cpu) in best.items():
        print(f"{name:27} {seconds:7.2f} s  {done.events / seconds / 1e6:6.2f} M events/s  {cpu:6.2f} CPU s")
    for name in (KEPT, DROPPED):
        by_time, by_cpu = (of / own for of, own in zip(best[name], best["backfill"], strict=True))
        print(f"backfill at {by_time:.2f} x of {name}, {by_cpu:.2f} x by CPU (wanted: 0.9)")
    spark.stop()
    if arguments.workers:
        sys.exit(0 if on_cluster(arguments.workers, folders, sink) else 1)


def on_cluster(workers: int, folders: list[pathlib.Path], local: Sink) -> bool:
    """Compute the same on a cluster, say how long that took and whether it is the same."""
    with standalone(workers) as url:
        spark, sink, began_s = open_session(url), Sink(local.until_ms), time.monotonic()
        run_backfill(sink, "top", 0, folders, url)
        taken_s = time.monotonic() - began_s
        spark.stop()
    same = sink.rows().equals(local.rows())
    print(f"on a spark:// master with {workers} workers: {taken_s:.2f} s, {'the same' if same else 'DIFFERENT'} rows")
    return same


if __name__ == "__main__":
    main()
