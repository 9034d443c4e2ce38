"""Whole agents on many lines of all formats: `python -m tests.privacy [--seeds A-B] [--lines N] [--processes N]`."""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import sys
import traceback

from tests.privacy.sweep import run, shares

_Task = tuple[int, list[str], int]


def main() -> int:
    """Run agents, as many at a time as there are processes; return 1 if one has told an address or has failed."""
    parser = argparse.ArgumentParser(prog="scripts/privacy", description=__doc__)
    parser.add_argument("--seeds", default="1-10", metavar="A-B", help="the first and the last seed")
    parser.add_argument("--lines", type=int, default=200, metavar="N", help="of each format, for each seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("-")
    tasks = [(seed, names, asked.lines) for seed in range(int(first), int(last or first) + 1) for names in shares()]
    with concurrent.futures.ProcessPoolExecutor(asked.processes) as processes:
        bad = [line for found in processes.map(_run, tasks) for line in found]
    print(f"{len(tasks)} agents, {sum(len(names) * lines for _, names, lines in tasks)} lines: {len(bad)} findings")
    return 1 if bad else 0


def _run(task: _Task) -> list[str]:
    seed, names, lines = task
    try:
        _, found = run(seed, names, lines)
    except Exception:
        found = [traceback.format_exc()]
    for each in found:
        print(f"--seeds {seed} --lines {lines}, {' '.join(names)}: {each}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
