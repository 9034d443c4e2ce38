"""Fuzz every decoder with damaged real frames: `scripts/fuzz --inputs 1000000`.

One sentence per target: any bytes decode, or raise the declared error, and memory stays flat. An input follows from the
seed, the target's name and a number, so a finding is repeated by the line it prints.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.targets import Target, targets

#: Inputs of each target before its memory is looked at: caches fill, arenas grow.
WARM = 2_000
#: What memory may grow by after that, in all: allocators and bounded caches, but no leak of a few bytes per input.
GROWTH_BYTES_MAX = 48 << 20
FINDINGS_MAX = 5


@dataclass
class Outcome:
    """What became of the inputs of one target."""

    target: Target
    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


def input_of(target: Target, seed: int, number: int) -> bytes:
    """Return one input; equal arguments give equal bytes, under any hash seed."""
    return target.damage(target.samples, random.Random(f"{seed} {target.name} {number}"))


def feed(target: Target, data: bytes) -> bool:
    """Give one input to a target; True if it was refused as declared. Anything else that is raised is a finding."""
    try:
        target.feed(data)
    except target.errors:
        return True
    return False


def fuzz(target: Target, seed: int, numbers: range) -> Outcome:
    """Give a target a run of inputs."""
    outcome, began = Outcome(target), time.process_time()
    for number in numbers:
        data = input_of(target, seed, number)
        outcome.inputs += 1
        try:
            outcome.refused += feed(target, data)
        # Panics of native libraries are no `Exception`.
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            outcome.findings.append(_finding(target, seed, number, data, error))
            if len(outcome.findings) >= FINDINGS_MAX:
                break
    outcome.seconds = time.process_time() - began
    return outcome


def shares(found: Sequence[Target], inputs: int) -> list[int]:
    """Return how many inputs each target gets of a total."""
    total = sum(target.weight for target in found)
    counts = [int(inputs * target.weight / total) for target in found]
    counts[0] += inputs - sum(counts)
    return counts


def resident_bytes() -> int:
    """Return the memory this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main(argv: Sequence[str] | None = None) -> int:
    """Run; return 1 if anything was found."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="scripts/fuzz", description="Fuzz every decoder that takes bytes from outside."
    )
    parser.add_argument("--inputs", type=int, default=100_000, help="in all; a nightly run takes 1000000")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", help="only the targets whose name contains this")
    parser.add_argument("--number", type=int, help="only this input of the target: repeats a finding")
    options = parser.parse_args(argv)
    if options.inputs <= 0:
        parser.error(f"--inputs is {options.inputs}; it has to be above 0")
    found = [target for target in targets() if options.target is None or options.target in target.name]
    if not found:
        parser.error(f"no target is called {options.target!r}")
    if options.number is not None:
        outcomes = [fuzz(each, options.seed, range(options.number, options.number + 1)) for each in found]
    else:
        outcomes = [fuzz(each, options.seed, range(min(WARM, count)))
                    for each, count in zip(found, shares(found, options.inputs), strict=True)]  # fmt: skip
        before = resident_bytes()
        for outcome, count in zip(outcomes, shares(found, options.inputs), strict=True):
            more = fuzz(outcome.target, options.seed, range(outcome.inputs, count))
            outcome.inputs += more.inputs
            outcome.refused += more.refused
            outcome.seconds += more.seconds
            outcome.findings += more.findings
        growth = resident_bytes() - before
        print(f"memory: {before >> 20} MiB warm, {growth / (1 << 20):+.1f} MiB since")
        if growth > GROWTH_BYTES_MAX:
            outcomes[0].findings.append(f"memory grew by {growth >> 20} MiB, more than {GROWTH_BYTES_MAX >> 20}")
    return _report(outcomes, options.seed)


def _report(outcomes: Sequence[Outcome], seed: int) -> int:
    for outcome in outcomes:
        rate = outcome.inputs / max(outcome.seconds, 1e-9)
        print(f"{outcome.target.name:26} {outcome.inputs:9,} inputs {outcome.refused:9,} refused {rate:9,.0f} /s")
    findings = [finding for outcome in outcomes for finding in outcome.findings]
    inputs, seconds = sum(o.inputs for o in outcomes), sum(o.seconds for o in outcomes)
    print(f"seed {seed}: {inputs:,} inputs in {seconds:.1f} s of CPU, {inputs / max(seconds, 1e-9):,.0f} inputs/s")
    print("\n".join([*findings, f"{len(findings)} findings"]))
    return 1 if findings else 0


def _finding(target: Target, seed: int, number: int, data: bytes, error: BaseException) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    shown = data.hex() if len(data) <= 2_000 else f"{data[:1_000].hex()}... ({len(data)} bytes)"
    return (
        f"FOUND {type(error).__name__} in {place.filename}:{place.lineno}: {str(error)[:300]}\n"
        f"  scripts/fuzz --seed {seed} --target {target.name!r} --number {number}\n  {shown}"
    )


if __name__ == "__main__":
    sys.exit(main())
