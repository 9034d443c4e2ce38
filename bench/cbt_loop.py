"""How long an event loop waits while a tree is filled and flushed in a thread beside it: `cbt_loop.py`; prints JSON.

A task on the loop wakes every millisecond and notes how late it is, first with nothing else going on, then while the
same process inserts and flushes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import time

os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import polars as pl
from cbt_tree import make_tree
from cbt_workloads import WORKLOADS, Input

BATCHES = 40
IDLE_S = 2.0
_BEAT_S = 0.001


class Beat:
    """Notes by how many milliseconds each wake-up came late."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []
        self._going = True

    async def run(self) -> None:
        """Beat until stopped."""
        while self._going:
            began_s = time.perf_counter()
            await asyncio.sleep(_BEAT_S)
            self.late_ms.append((time.perf_counter() - began_s - _BEAT_S) * 1e3)

    def stop(self) -> None:
        """End after the next beat."""
        self._going = False


def work(frames: list[pl.DataFrame]) -> None:
    """Insert frames into a tree, flush it three times on the way."""
    tree = make_tree({})
    for number, frame in enumerate(frames):
        tree.insert(frame)
        if number % (BATCHES // 3) == 0:
            sum(part.height for part in tree.flush())
    tree.close()


async def measure() -> dict[str, float]:
    """Return the latest beats, idle and busy."""
    result: dict[str, float] = {}
    source = Input(WORKLOADS["words"])
    frames = [source.frame(ids) for _, ids in zip(range(BATCHES), source.batches(), strict=False)]
    # As an agent does once it has loaded: what is there now is no garbage.
    gc.collect()
    gc.freeze()
    for name in ("idle", "busy"):
        beat = Beat()
        beating = asyncio.create_task(beat.run())
        await (asyncio.sleep(IDLE_S) if name == "idle" else asyncio.to_thread(work, frames))
        beat.stop()
        await beating
        late = np.array(beat.late_ms)
        result |= {f"{name}_beats": late.size, f"{name}_max_ms": late.max()}
        result |= {f"{name}_p{share:g}_ms": np.percentile(late, share) for share in (50, 99, 99.9)}
    return {key: round(float(value), 3) for key, value in result.items()}


if __name__ == "__main__":
    argparse.ArgumentParser(allow_abbrev=False, description=__doc__).parse_args()
    print(json.dumps(asyncio.run(measure())))
