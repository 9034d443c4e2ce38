"""Logs of demonstrations, written live: what a server's application would log, drawn from a seed."""

from __future__ import annotations

import argparse
import json
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

#: How often is written.
TICK_S = 0.1

#: Draws so many of what is logged at a time (ms), each one or several lines.
Draw = Callable[[random.Random, int, int], Sequence[dict[str, Any]]]


def write_log(program: str, what: str, draw: Draw) -> None:
    """Append lines to a log until SIGTERM, as the command line says: `--live --rate N --seed N --out FILE`.

    Args:
        program: the module that is run.
        what: is logged, for `--help`.
        draw: draws it.
    """
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog=f"python -m {program}", description=f"Append {what} to a log until SIGTERM."
    )
    parser.add_argument("--live", action="store_true", required=True, help=f"{what} of this very moment")
    parser.add_argument("--rate", type=float, default=50, help=f"{what} a second (default 50)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    ended, rng = threading.Event(), random.Random(args.seed)
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with args.out.open("a", encoding="utf-8") as log:
        while not ended.wait(TICK_S):
            for line in draw(rng, round(args.rate * TICK_S), time.time_ns() // 1_000_000):
                log.write(json.dumps(line) + "\n")
            log.flush()
