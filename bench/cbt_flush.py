"""What a flush costs when there is little new: `cbt_flush.py`; prints CPU seconds as JSON.

A tree of a million keys is flushed again and again, in turn with nothing new and after 10,000 inserts. Without anything
new, a flush reads the compressed leaves once; with a little, it must not do much more than that.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time

os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from cbt_meter import pin
from cbt_tree import make_tree
from cbt_workloads import BATCH_ROWS, Input, Workload

from elf.cbt.tree import BufferTree

KEYS = 1_000_000
NEW_ROWS = 10_000


def flush(tree: BufferTree, keys: int, total: int) -> float:
    """Flush a tree, check what comes out, return the CPU seconds it took."""
    cpu_s, rows, counted = 0.0, 0, 0
    parts = tree.flush()
    while True:
        began_s = time.process_time()
        part = next(parts, None)
        cpu_s += time.process_time() - began_s
        if part is None:
            break
        rows += part.height
        counted += int(part["a0_n"].sum())
    if (rows, counted) != (keys, total):
        sys.exit(f"flush: {rows:,} keys with {counted:,} inserts instead of {keys:,} with {total:,}")
    return cpu_s


def main() -> None:
    """Fill a tree, take turns, print the medians."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--settings", type=json.loads, default={})
    parser.add_argument("--turns", type=int, default=15)
    args = parser.parse_args()
    pin(0, args.core)
    workload = Workload("flush", "", "", KEYS, KEYS, draw="once").scaled(args.scale)
    source, tree = Input(workload), make_tree(args.settings)
    for ids in source.batches():
        tree.insert(source.frame(ids))
    total = workload.inserts
    rng = np.random.default_rng(1)
    new_rows = min(NEW_ROWS, BATCH_ROWS, workload.keys)
    idle, busy, insert = [], [], []
    for _ in range(args.turns):
        # Every leaf merged, every buffer empty: a flush reads the compressed leaves once, and that is all.
        tree.compact()
        idle.append(flush(tree, workload.keys, total))
        frame = source.frame(rng.integers(0, workload.keys, new_rows))
        began_s = time.process_time()
        tree.insert(frame)
        insert.append(time.process_time() - began_s)
        total += new_rows
        busy.append(flush(tree, workload.keys, total))
    idle_s, busy_s = statistics.median(idle), statistics.median(busy)
    result = {"keys": workload.keys, "repeats": args.turns, "idle_s": idle_s, "busy_s": busy_s}
    result |= {"insert_s": statistics.median(insert), "ratio": busy_s / idle_s if idle_s else float("inf")}
    print(json.dumps(result))
    tree.close()


if __name__ == "__main__":
    main()
