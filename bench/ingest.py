"""Measure ingest: file to windowed result in one agent, beside other ways to do the same on the same file.

Every run is a process of its own, its CPU time (user + system, all threads) and peak memory taken from the kernel when
it ends. Engines take turns, so that a busy moment of the machine hits all; the figures are medians. The marginal rate
is what the difference between a long and a short file costs, so start-up and imports are not in it.
"""

from __future__ import annotations

import argparse
import compileall
import itertools
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import data

HERE = Path(__file__).resolve().parent
ENGINES = {"topk": ("elf", "duckdb", "polars", "loop"), "count": ("elf", "duckdb", "polars", "loop")}
ENGINES["paths"] = ("elf", "duckdb", "loop")
MAKERS = {"topk": data.clicks, "count": data.clicks, "paths": data.access}
#: What the first release promises (tracker: "The first true answer"): query, other engine, at least this many times.
PROMISES = (("topk", "duckdb", 1.2), ("count", "loop", 1.1), ("count", "duckdb", 0.6))
#: Compiled first, as an installation does for every package, elf and the others alike; a checkout may never do it.
PACKAGES = ("agents", "cbt", "elf", "overlay")
#: What an engine reads before a run that counts.
WARM_LINES = 1_000
RSS_BYTES_MAX = 250 * 1000 * 1000


@dataclass(frozen=True)
class Run:
    """What one process cost."""

    cpu_s: float
    wall_s: float
    rss_bytes: int


def run(engine: str, query: str, path: Path) -> tuple[Run, str]:
    """Run one engine in a process of its own; returns its cost and its result as JSON text."""
    began = time.monotonic()
    command = [sys.executable, str(HERE / f"engine_{engine}.py"), query, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        output = process.stdout.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{engine} failed on {query}")
    cost = Run(usage.ru_utime + usage.ru_stime, time.monotonic() - began, usage.ru_maxrss * 1024)
    return cost, json.dumps(json.loads(output))


def made(query: str, *sizes: int) -> list[Path]:
    """Make a query's logs of these many lines, unless they are there.

    In a process of its own: a child starts with its parent's peak memory in the kernel's books.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.map(MAKERS[query], sizes)


def few_lines(path: Path) -> Path:
    """Return a log of the first lines of one, for what an engine costs before it has read anything."""
    few = path.with_name(f"few-{path.name}")
    if not few.exists():
        with path.open("rb") as lines:
            few.write_bytes(b"".join(itertools.islice(lines, WARM_LINES)))
    return few


def compile_packages() -> None:
    """Compile elf's modules, as an installation does for every package."""
    for package in PACKAGES:
        compileall.compile_dir(HERE.parent / package, quiet=1)


def measure(query: str, sizes: tuple[int, int], repeats: int) -> dict[str, dict[int, list[Run]]]:
    """Run all engines in turn over a short and a long file; all must give the same result."""
    paths = dict(zip(sizes, made(query, *sizes), strict=True))
    runs: dict[str, dict[int, list[Run]]] = {engine: {n: [] for n in sizes} for engine in ENGINES[query]}
    for repeat in range(repeats):
        for lines, path in paths.items():
            results = set()
            for engine in ENGINES[query]:
                _warm(engine, query, path, paths[min(paths)])
                cost, result = run(engine, query, path)
                runs[engine][lines].append(cost)
                results.add(result)
            if len(results) != 1:
                sys.exit(f"{query} over {lines} lines: the engines disagree")
        print(f"ingest: {query}, repeat {repeat + 1} of {repeats}", file=sys.stderr)
    return runs


def _warm(engine: str, query: str, path: Path, short: Path) -> None:
    """Bring an engine's program and the file into memory, for each run alike.

    A virtual machine takes back what was not touched for seconds. Who runs after a slow engine would pay for that, and
    who runs next would not.
    """
    run(engine, query, few_lines(short))
    with path.open("rb") as text:
        while text.read(1 << 20):
            pass


def median_cpu_s(runs: list[Run]) -> float:
    """Return the median CPU time of some runs."""
    return statistics.median(run.cpu_s for run in runs)


def report(query: str, sizes: tuple[int, int], runs: dict[str, dict[int, list[Run]]]) -> dict[str, tuple[float, float]]:
    """Print one query's table; returns each engine's lines per CPU second, whole process and marginal."""
    short, long = sizes
    megabytes = {lines: MAKERS[query](lines).stat().st_size / 1e6 for lines in sizes}
    print(f"\n**{query}**, {megabytes[short] * 1e6 / short:.0f} bytes a line, M lines per CPU second\n")
    print(f"| engine | whole process, {short:,} lines | marginal beyond | marginal MB per CPU s | peak memory, MB |")
    print("|---|---|---|---|---|")
    rates = {}
    for engine, by_size in runs.items():
        cpu_s = {lines: median_cpu_s(by_size[lines]) for lines in sizes}
        extra_s = max(cpu_s[long] - cpu_s[short], 1e-9)
        rates[engine] = (short / cpu_s[short], (long - short) / extra_s)
        rss = max(run.rss_bytes for costs in by_size.values() for run in costs) / 1e6
        print(
            f"| {engine} | {rates[engine][0] / 1e6:.2f} | {rates[engine][1] / 1e6:.2f} "
            f"| {(megabytes[long] - megabytes[short]) / extra_s:.0f} | {rss:.0f} |"
        )
    return rates


def main() -> None:
    """Run the benchmark and print its tables; exit 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="scripts/bench ingest", description=main.__doc__)
    parser.add_argument("--lines", type=int, default=2_000_000, help="lines of the short file; the long one has twice")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--queries", nargs="+", choices=sorted(MAKERS), default=["topk", "count", "paths"])
    args = parser.parse_args()
    sizes = (args.lines, 2 * args.lines)
    compile_packages()
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {_processor()}, Python {platform.python_version()}")
    kept = True
    rates = {}
    for query in args.queries:
        runs = measure(query, sizes, args.repeats)
        rates[query] = report(query, sizes, runs)
        rss_bytes = max(run.rss_bytes for costs in runs["elf"].values() for run in costs)
        kept &= _promise(f"{query}: memory below {RSS_BYTES_MAX / 1e6:.0f} MB", rss_bytes < RSS_BYTES_MAX)
    for query, other, factor in PROMISES:
        if query in rates:
            whole, marginal = (
                ours / theirs for ours, theirs in zip(rates[query]["elf"], rates[query][other], strict=True)
            )
            text = f"{query}: {whole:.2f} x {other} (marginal {marginal:.2f} x), promised {factor}"
            kept &= _promise(text, whole >= factor)
    sys.exit(not kept)


def _promise(text: str, kept: bool) -> bool:
    print(f"\n{'kept' if kept else 'BROKEN'}: {text}")
    return kept


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    main()
