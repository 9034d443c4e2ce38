"""Measure ad hoc windows at a master: does a question about a week take longer than one about half a minute?

A master takes in one pane of 10,000 keys every 30 s for a week, 1 % of the rows late by a pane or two, and then answers
windows of several lengths that end anywhere, none of them asked before. Times are those of `Windows.result`, from the
question to rows as the API sends them.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import polars as pl

from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.language.types import SqlType
from elf.agents.master.master import Master
from elf.agents.master.results import Span
from elf.agents.store.database import Database
from elf.agents.store.panes import Panes
from elf.agents.worker.payload import Notes, pack
from elf.overlay.contract import NEVER, Commit, RollupState
from elf.overlay.group.messages import Place

JOB = """
name = "bought"
creator = "bench"
query = '''
SELECT product, count(*) AS n, {} AS quantity FROM orders
GROUP BY product, window(ts, '30 seconds') ORDER BY n DESC, product LIMIT 10
'''
[options]
retain = "30d"
"""
#: With an inverse, and without.
AGGREGATES = {"sum": "sum(quantity)", "max": "max(quantity)"}
PANE_S = 30
#: Panes more than the longest window has, so that it can be asked for in many places.
SPARE = 300
LENGTHS_S = {"30 s": 30, "5 min": 300, "1 h": 3_600, "1 day": 86_400, "7 days": 604_800}
#: The promise (tracker: "Exactly once, honestly labelled"): medians within this of each other, each below this, in this
#: much memory.
RATIO_MAX, P50_MS_MAX, RSS_BYTES_MAX = 2.0, 20.0, 200 * 1000 * 1000


def fill(master: Master, plan: Plan, panes: int, keys: int) -> float:
    """Commit so many panes; returns the seconds of CPU that it took, making them included."""
    rng = np.random.default_rng(1)
    products = pl.Series("product", [f"product-{number:06d}" for number in range(keys)])
    began, began_cpu = time.monotonic(), time.process_time()
    for through in range(panes):
        at = np.full(keys, through)
        late = rng.random(keys) < 0.01
        at[late] = np.maximum(0, through - rng.integers(1, 3, int(late.sum())))
        frame = pl.DataFrame({"ts": pl.Series(at * PANE_S * 1000).cast(pl.Datetime("ms")), "product": products})
        frame = frame.with_columns(quantity=pl.Series(rng.integers(1, 9, keys)))
        commit = Commit(
            through - 1 if through else NEVER,
            through,
            pack(Notes(), plan.reduce(frame)),
            ("a", "b"),
            (),
            RollupState(committed=through),
        )
        master.commit(commit, Place(1, master.state.applied.index + 1))
        if through % 1000 == 999:
            print(
                f"{through + 1} panes, {(time.monotonic() - began) / (through + 1) * 1000:.0f} ms each", file=sys.stderr
            )
    return time.process_time() - began_cpu


def main() -> int:
    """Measure each aggregate in a process of its own; returns 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="scripts/bench windows", description=__doc__)
    parser.add_argument("--panes", type=int, default=7 * 86_400 // PANE_S + SPARE)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--aggregate", choices=AGGREGATES, help="sum has an inverse, the others none; default: both")
    parser.add_argument("--questions", type=int, default=60)
    arguments = parser.parse_args()
    if arguments.aggregate is not None:
        return measure(arguments)
    # Peak memory is a process's own.
    codes = [subprocess.run([sys.executable, *sys.argv, "--aggregate", name]).returncode for name in AGGREGATES]
    return max(codes)


def measure(arguments: argparse.Namespace) -> int:
    """Fill a master, ask it, print a table; returns 1 if a promise is not kept."""
    types = {"product": SqlType.STRING, "quantity": SqlType.BIGINT}
    plan = compile_job(load_definition(JOB.format(AGGREGATES[arguments.aggregate]), filename="bench.toml"), types)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = pathlib.Path(folder) / "state.db"
        database = Database(path)
        store = Panes(database)
        store.create(plan.definition.app_id, b"job", b"")
        cpu_s = fill(Master(plan, store, None), plan, arguments.panes, arguments.keys)
        ((_, _, state),) = store.masters()
        began = time.monotonic()
        master = Master(plan, store, state)
        ms, kb = cpu_s / arguments.panes * 1000, path.stat().st_size / arguments.panes / 1000
        print(f"\n{AGGREGATES[arguments.aggregate]}: {arguments.panes} panes of {arguments.keys} keys")
        print(f"each {ms:.1f} ms of CPU, {kb:.0f} kB on disk; started again in {time.monotonic() - began:.2f} s")
        kept = ask(master, arguments.panes, arguments.questions)
        database.close()
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(f"peak memory {rss / 1e6:.0f} MB (at most {RSS_BYTES_MAX / 1e6:.0f})")
        return 0 if kept and rss <= RSS_BYTES_MAX else 1


def ask(master: Master, panes: int, questions: int) -> bool:
    """Ask for windows of all lengths in turns; tell whether the promises on time are kept."""
    rng = random.Random(1)
    took: dict[str, list[float]] = {
        name: [] for name, seconds in LENGTHS_S.items() if seconds // PANE_S + SPARE <= panes
    }
    for _ in range(questions):
        for name in took:
            length = LENGTHS_S[name] // PANE_S
            first = rng.randint(0, panes - length)
            span = Span(first * PANE_S * 1000, (first + length) * PANE_S * 1000)
            began = time.perf_counter()
            master.windows.result(span, None, None, str)
            took[name].append((time.perf_counter() - began) * 1000)
    print("| window | p50, ms | p99, ms |\n|---|---|---|")
    for name, times in took.items():
        print(f"| {name} | {statistics.median(times):.1f} | {np.quantile(times, 0.99):.1f} |")
    medians = [statistics.median(times) for times in took.values()]
    print(f"longest to shortest median {max(medians) / min(medians):.2f} (at most {RATIO_MAX})")
    return max(medians) <= min(RATIO_MAX * min(medians), P50_MS_MAX)


if __name__ == "__main__":
    sys.exit(main())
