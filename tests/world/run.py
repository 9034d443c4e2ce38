"""`scripts/simulate agents|members|leadership|rogue|reloads`: seeds of the World. Exit code 1 if one failed."""

from __future__ import annotations

import argparse
import functools
import logging
import multiprocessing
from collections.abc import Callable, Sequence

from tests.world.leadership import play_chain
from tests.world.trials import Options, Run, play

#: Agents of `members` that come later.
COMERS = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns 1 if anything failed."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="scripts/simulate", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "scenario",
        nargs="?",
        choices=("agents", "members", "leadership", "rogue", "reloads"),
        default="agents",
        help="what happens; default: agents",
    )
    parser.add_argument("--seeds", default="1", metavar="A-B", help="seeds to run, A or A-B; default: 1")
    parser.add_argument("--agents", type=int, default=5, help="how many agents; default: 5; leadership: 7 always")
    parser.add_argument("--seconds", type=float, default=40.0, help="virtual seconds of faults; default: 40")
    parser.add_argument("--faults", help="kinds of faults of `agents`, with commas between; default: all")
    parser.add_argument("--processes", type=int, default=1, help="processes that run at the same time; default: 1")
    chosen = parser.parse_args(argv)
    first, _, last = chosen.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    kinds = tuple(chosen.faults.split(",")) if chosen.faults else None
    course = functools.partial(play, agents=chosen.agents, options=Options(seconds=chosen.seconds, faults=kinds))
    if chosen.scenario == "leadership":
        course = functools.partial(play_chain, seconds=chosen.seconds)
    elif chosen.scenario == "members":
        options = Options(seconds=chosen.seconds, faults=kinds, comers=COMERS)
        course = functools.partial(play, agents=chosen.agents + COMERS, options=options)
    elif chosen.scenario == "rogue":
        options = Options(seconds=chosen.seconds, faults=kinds, is_betrayed=True)
        course = functools.partial(play, agents=chosen.agents, options=options)
    elif chosen.scenario == "reloads":
        options = Options(seconds=chosen.seconds, faults=kinds, is_reloaded=True)
        course = functools.partial(play, agents=chosen.agents, options=options)
    one = functools.partial(_one, course)
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


def _one(course: Callable[[int], Run], seed: int) -> Run:
    logging.getLogger().addHandler(logging.NullHandler())
    logging.getLogger().setLevel(logging.ERROR)
    return course(seed)


def _show(run: Run) -> bool:
    print("\n  ".join([run.line(), *run.failures]), flush=True)
    return bool(run.failures)
