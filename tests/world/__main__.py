"""`scripts/simulate agents`: seeds of the World, in a few processes. A line for each; exit code 1 if one failed."""

from __future__ import annotations

import argparse
import functools
import logging
import multiprocessing
import sys
from collections.abc import Sequence

from tests.world.trials import Options, Run, play


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns 1 if anything failed."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="scripts/simulate agents", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--seeds", default="1", metavar="A-B", help="seeds to run, A or A-B; default: 1")
    parser.add_argument("--agents", type=int, default=5, help="how many agents; default: 5")
    parser.add_argument("--seconds", type=float, default=40.0, help="virtual seconds of faults; default: 40")
    parser.add_argument("--faults", help="kinds of faults, with commas between; default: all")
    parser.add_argument("--processes", type=int, default=1, help="processes that run at the same time; default: 1")
    chosen = parser.parse_args(argv)
    first, _, last = chosen.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    kinds = tuple(chosen.faults.split(",")) if chosen.faults else None
    one = functools.partial(_one, chosen.agents, Options(seconds=chosen.seconds, faults=kinds))
    failed = 0
    if chosen.processes > 1 and len(seeds) > 1:
        # Fresh processes: what one run leaves in caches must not reach the next.
        with multiprocessing.get_context("spawn").Pool(chosen.processes, maxtasksperchild=20) as pool:
            for run in pool.imap(one, seeds):
                failed += _show(run)
    else:
        for seed in seeds:
            failed += _show(one(seed))
    print(f"{len(seeds) - failed} of {len(seeds)} runs passed")
    return 1 if failed else 0


def _one(agents: int, options: Options, seed: int) -> Run:
    logging.getLogger().addHandler(logging.NullHandler())
    logging.getLogger().setLevel(logging.ERROR)
    return play(seed, agents, options)


def _show(run: Run) -> bool:
    print("\n  ".join([run.line(), *run.failures]), flush=True)
    return bool(run.failures)


if __name__ == "__main__":
    sys.exit(main())
