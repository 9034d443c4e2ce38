"""One engine over one workload, in a process of its own: `cbt_engine.py ENGINE WORKLOAD ...`; prints its cost as JSON.

Keys are inserted batch by batch and then drained: every key with its count is handed out once. Making the batches is
not in the CPU time. The drained counts are compared with the truth, key by key, after the cost was taken.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

# All engines have one core: more threads would only get into each other's way.
os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import cbt_native
import polars as pl
from cbt_meter import Meter, pin
from cbt_workloads import FIFTY_MILLION, WORKLOADS, Input, Workload, difference_from_truth

NATIVE_ENGINES = ("sparse", "absl", "robin")
#: Polars merges no fewer rows than these; fewer make Zipf slower and nothing else faster.
BUFFER_ROWS_MIN = 262_144

Drained = Iterator[tuple[pl.Series, pl.Series]]


def elf(workload: Workload, meter: Meter, settings: dict[str, Any]) -> Drained:
    """The buffer tree, on PAO frames."""
    from cbt_tree import make_tree  # here, so that the others do not hold what it imports

    from tests.cbt.checks import statistics_of

    source = Input(workload)
    # With nodes so small that 10,000 keys split and merge them, so that all of the tree's code is in memory.
    small = {"root_rows": 8192, "node_rows": 2048, "leaf_rows": 2048, "block_rows": 1024, "fan_out": 4}
    with contextlib.closing(make_tree(settings | small)) as tree:
        frame = source.frame(source.warm_up())
        for _ in range(4):
            tree.insert(frame)
        sum(part.height for part in tree.flush())
    del tree
    tree = make_tree(settings)
    meter.start()
    del frame
    for frame in meter.batches(source.frame(ids) for ids in source.batches()):
        tree.insert(frame)
        del frame
    with meter.aside():
        meter.inserted(source.frame(source.warm_up()))
    rows = 0
    for part in tree.flush():
        rows += part.height
        with meter.aside():
            meter.look()
    meter.stop()
    meter.notes["spilled_bytes"] = statistics_of(tree).spilled_bytes
    # The content is kept, so it can be handed out again, to be looked at.
    for part in tree.flush():
        rows -= part.height
        yield part["key"], part["a0_n"]
    if rows:
        sys.exit(f"elf: the second flush has {-rows:,} more rows than the first")
    tree.close()


def polars(workload: Workload, meter: Meter) -> Drained:
    """Polars alone: each frame is grouped, and kept until there are as many rows as in what was grouped before.

    Grouping frames by themselves first makes Zipf three times faster, the others a tenth slower.
    """
    source = Input(workload)
    frame = source.frame(source.warm_up()).select("key", "a0_n")
    _group([_group([frame, frame]), frame])
    grouped, rows = frame.clear(), 0
    waiting: list[pl.DataFrame] = []
    meter.start()
    del frame
    for frame in meter.batches(source.frame(ids).select("key", "a0_n") for ids in source.batches()):
        waiting.append(_group([frame]))
        del frame
        rows += waiting[-1].height
        if rows >= max(BUFFER_ROWS_MIN, grouped.height):
            grouped = _group([grouped, *waiting])
            waiting.clear()
            rows = 0
    with meter.aside():
        meter.inserted(source.frame(source.warm_up()))
    grouped = _group([grouped, *waiting])
    waiting.clear()
    meter.stop()
    yield grouped["key"], grouped["a0_n"]


def _group(frames: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames).group_by("key").agg(pl.col("a0_n").sum())


def counted(workload: Workload, meter: Meter) -> Drained:
    """A Python dict, on lists of str."""
    source = Input(workload)
    keys = source.keys(source.warm_up()).to_list()
    counts: dict[str, int] = {}
    _count(counts, keys)
    counts = {}
    meter.start()
    del keys
    for keys in meter.batches(source.keys(ids).to_list() for ids in source.batches()):
        _count(counts, keys)
        del keys
    with meter.aside():
        meter.inserted(source.keys(source.warm_up()).to_list())
    drained = 0
    for key, count in counts.items():
        drained += count if key else 0
    meter.stop()
    entries = iter(counts.items())
    while part := list(itertools.islice(entries, 1 << 18)):
        yield pl.Series([key for key, _ in part], dtype=pl.String), pl.Series([n for _, n in part], dtype=pl.Int64)


def _count(counts: dict[str, int], keys: list[str]) -> None:
    for key in keys:
        counts[key] = counts.get(key, 0) + 1


def main() -> None:
    """Run the engine and print what it cost."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("engine", choices=("elf", "polars", "dict", *NATIVE_ENGINES))
    parser.add_argument("workload", choices=(*WORKLOADS, FIFTY_MILLION.name))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--settings", type=json.loads, default={}, help="of elf's tree, as JSON")
    parser.add_argument("--keep-freed", action="store_true", help="as an agent: let the allocator keep freed memory")
    args = parser.parse_args()
    workload = (WORKLOADS | {FIFTY_MILLION.name: FIFTY_MILLION})[args.workload].scaled(args.scale)
    if args.engine in NATIVE_ENGINES:
        print(json.dumps(cbt_native.run(args.engine, workload, args.core)))
        return
    pin(0, args.core)
    if args.keep_freed:
        from elf.agents.host.allocation import keep_freed_memory

        keep_freed_memory()
    meter = Meter()
    match args.engine:
        case "elf":
            drained = elf(workload, meter, args.settings)
        case "polars":
            drained = polars(workload, meter)
        case _:
            drained = counted(workload, meter)
    # With the first part the cost is known; only then is memory taken for the truth.
    drained = itertools.chain([next(drained)], drained)
    if wrong := difference_from_truth(workload, drained):
        sys.exit(f"{args.engine}: {wrong}")
    print(json.dumps(meter.result()))


if __name__ == "__main__":
    main()
