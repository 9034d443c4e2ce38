"""The kernels in C against their twin in Python on very many lines: `python -m tests.kernels [--lines N]`.

What is drawn follows from the seed, the work's name and a number: a finding is repeated by what it prints.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
import traceback
from multiprocessing.sharedctypes import Synchronized
from typing import NamedTuple

from tests import sanitized

#: Of one process; then it ends.
FINDINGS_MAX = 3


class Share(NamedTuple):
    """What one process does.

    Attributes:
        seed: of everything that is drawn.
        names: the sorts of work.
        first: number of its first piece of work.
        step: from each number to its next one.
        lines: it ends after so many.
        until_s: and at this time, of the machine's monotonic clock.
    """

    seed: int
    names: list[str]
    first: int
    step: int
    lines: int
    until_s: float


def main() -> int:
    """Run; return 1 if kernels and twin have differed, or a process has died."""
    parser = argparse.ArgumentParser(prog="scripts/kernels", description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000_000, metavar="N", help="in all")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="N", help="end after so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--work", metavar="NAME", help="only work of this sort")
    parser.add_argument("--number", type=int, metavar="N", help="only this piece of work: repeats a finding")
    parser.add_argument("--built", metavar="FILE", help="kernels of another build")
    asked = parser.parse_args()
    if asked.built:
        sanitized.install(asked.built)
    from tests.kernels.work import WORK

    names = [asked.work] if asked.work else list(WORK)
    if asked.number is not None:
        return len(_piece(asked.seed, names[asked.number % len(names)], asked.number)[1])
    fork = multiprocessing.get_context("fork")
    per = -(-asked.lines // asked.processes)
    until_s = time.monotonic() + asked.seconds
    shares = [Share(asked.seed, names, at, asked.processes, per, until_s) for at in range(asked.processes)]
    state = [(fork.Value("q", -1), fork.Value("q", 0), fork.Value("q", 0)) for _ in shares]
    began = time.monotonic()
    running = [fork.Process(target=_run, args=(share, *own)) for share, own in zip(shares, state, strict=True)]
    for process in running:
        process.start()
    bad = 0
    for process, (at, _, findings) in zip(running, state, strict=True):
        process.join()
        bad += int(findings.value)
        if process.exitcode:
            bad += 1
            name = names[at.value % len(names)]
            print(f"a process died ({process.exitcode}): --seed {asked.seed} --work {name} --number {at.value}")
    done, seconds = sum(int(lines.value) for _, lines, _ in state), time.monotonic() - began
    print(f"{done} lines, {done / seconds:,.0f} a second: {bad} findings")
    return 1 if bad else 0


def _run(share: Share, at: Synchronized[int], lines: Synchronized[int], findings: Synchronized[int]) -> None:
    number = share.first
    while lines.value < share.lines and findings.value < FINDINGS_MAX and time.monotonic() < share.until_s:
        at.value = number
        done, found = _piece(share.seed, share.names[number % len(share.names)], number)
        lines.value += done
        findings.value += len(found)
        number += share.step


def _piece(seed: int, name: str, number: int) -> tuple[int, list[str]]:
    """Do a piece of work; return how many lines it had, and what was found."""
    from tests.kernels.work import WORK

    try:
        return WORK[name](random.Random(f"{seed} {name} {number}")), []
    # Panics of native libraries are no `Exception`.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        said = "".join(traceback.format_exception(error))
        print(f"--seed {seed} --work {name} --number {number}:\n{said}", flush=True)
        return 0, [said]


if __name__ == "__main__":
    sys.exit(main())
