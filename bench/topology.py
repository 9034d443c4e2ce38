"""The shape of trees and the spread of roots for many agents, by the choices that agents make; no network.

Prints the tables of docs/OVERLAY.md: `scripts/topology trees` and `scripts/topology roots`.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from tests.overlay import roots
from tests.overlay.tree import topology


def print_trees(args: argparse.Namespace) -> None:
    """Print one row per number of agents: the mean over keys, and the worst where it says max."""
    print(
        "| agents | log16 N | hops mean / p99 / max | depth | fan-in max | JOINs per member | interior | forwarders |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for count in args.agents:
        began_s = time.process_time()
        tables = topology.Tables.of_random_ids(count, args.seed, args.k)
        found = [
            topology.measure(
                count, args.seed + key, k=args.k, fan_in_max=args.fan_in, members=args.members, tables=tables
            )
            for key in range(args.keys)
        ]
        mean = {name: sum(getattr(one, name) for one in found) / len(found) for name in topology.Figures.__slots__}
        most = {name: max(getattr(one, name) for one in found) for name in topology.Figures.__slots__}
        print(
            f"| {count:,} | {math.log(count, 16):.2f} "
            f"| {mean['hops_mean']:.2f} / {most['hops_p99']} / {most['hops_max']} | {most['depth']} "
            f"| {most['fan_in_max']} | {mean['joins_per_member']:.2f} | {100 * mean['interior']:.1f} % "
            f"| {100 * mean['forwarders']:.1f} % |",
            flush=True,
        )
        spent_s = time.process_time() - began_s
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{count:,}: {spent_s:.1f} s of CPU for {args.keys} keys, {peak_mb:.0f} MB at the peak", file=sys.stderr)


def print_roots(args: argparse.Namespace) -> None:
    """Print one row per number of trees: this placement, one key alone, and what the paper says."""
    print(
        f"| trees on {args.agents:,} agents | roots below | two candidates, mean (worst of {args.draws}) | most roots "
        "| one key, mean (worst) | most roots | the paper |"
    )
    print("|---|---|---|---|---|---|---|")
    for trees, below, paper in roots.PAPER:
        two, one = (
            roots.measure(trees, below, args.draws, agents=args.agents, seed=args.seed, salts=salts)
            for salts in (roots.SALTS, (0,))
        )
        cells = (f"{100 * s.mean:.2f} % ({100 * s.worst:.2f} %) | {s.roots_max}" for s in (two, one))
        print(f"| {trees:,} | {below} | {' | '.join(cells)} | {100 * paper:.1f} % |", flush=True)


def main() -> None:
    """Parse the command line and print a table."""
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="scripts/topology", description=__doc__)
    commands = parser.add_subparsers(required=True)
    trees = commands.add_parser("trees", help="the shape of a tree")
    trees.add_argument("--agents", type=int, nargs="+", default=[300, 1_280, 10_000, 100_000, 1_000_000])
    trees.add_argument("--keys", type=int, default=3, help="trees per number of agents")
    trees.add_argument("--members", type=float, default=1.0, help="share of the agents that join")
    trees.add_argument("--k", type=int, default=topology.K, help="contacts on a level of a routing table")
    trees.add_argument("--fan-in", type=int, default=topology.FAN_IN_MAX)
    trees.set_defaults(run=print_trees)
    spread = commands.add_parser("roots", help="how many trees agents are root of")
    spread.add_argument("--agents", type=int, default=roots.AGENTS)
    spread.add_argument("--draws", type=int, default=20)
    spread.set_defaults(run=print_roots)
    for command in (trees, spread):
        command.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    counts = {name: value for name, value in vars(args).items() if name not in ("run", "seed")}
    for name, value in counts.items():
        if min(value if isinstance(value, list) else [value]) <= 0:
            parser.error(f"--{name.replace('_', '-')} is {value}; it has to be above 0")
    args.run(args)


if __name__ == "__main__":
    main()
