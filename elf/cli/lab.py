"""Command for the curious: lab (the overlay of a thousand agents and hundreds of jobs in one process)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from elf.cli.connection import AsJson
from elf.cli.exits import DIFFERS
from elf.cli.output import console, print_json, say, table_of, wants_json

if TYPE_CHECKING:
    from elf.overlay.sim.lab import Findings, Plan

_PANEL = "Lab"


def lab(
    agents: Annotated[int, typer.Option(min=1, max=20_000, help="Agents in this process, their overlay.")] = 1280,
    jobs: Annotated[int, typer.Option(min=1, max=10_000, help="Jobs, each with a reducer tree of its own.")] = 500,
    share: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Share of the agents that are members of each job; default: what fits."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.")] = 1,
    as_json: AsJson = False,
) -> None:
    """See scale on a laptop: many agents' overlay in virtual time, measured. Exit code 1 if a tree is wrong."""
    import logging

    from elf.overlay.sim import lab as simulated

    plan = simulated.Plan.of(agents, jobs, share, seed)
    say(_describe(plan, share))
    # A thousand nodes talk of every link; what went wrong is in the findings.
    logging.disable(logging.ERROR)
    try:
        with _progress() as tell:
            findings = simulated.run(plan, tell)
    finally:
        logging.disable(logging.NOTSET)
    if wants_json(as_json):
        print_json(findings)
    else:
        console().print(table_of(("", "measured", "to compare"), _rows(findings)))
        say(f"{findings.virtual_s:.1f} s of virtual time in {findings.wall_s:.0f} s, {findings.memory_mb} MB of memory")
    for text in findings.wrong:
        say(f"wrong: {text}")
    if findings.wrong:
        raise typer.Exit(DIFFERS)


def _describe(plan: Plan, share: float | None) -> str:
    who = f"{plan.agents} agents, {plan.jobs} jobs, seed {plan.seed}: "
    if plan.members == plan.agents:
        return who + "every agent is a member of every job"
    why = "" if share is not None else "; --share 1 takes all, which needs patience and memory"
    return who + f"{plan.members} agents are members of each job, drawn anew{why}"


def _rows(found: Findings) -> list[tuple[str, str, str]]:
    plan = found.plan
    return [
        ("contacts, per agent", f"{found.contacts:.1f}", ""),
        ("false roots", str(found.false_roots), "0"),
        ("agents under a wrong root", str(found.misled), "0"),
        ("hops of a request", f"{found.request_hops:.2f}", "2.58 = log16 of 1,280"),
        ("hops to the root, mean", f"{found.hops_mean:.2f}", "2.78 is the least at 1,280"),
        ("hops to the root, p99 / most", f"{found.hops_p99:.0f} / {found.depth}", "at most 7"),
        ("children, p99 / most", f"{found.fan_in_p99:.0f} / {found.fan_in_max}", "at most 16"),
        ("forwarders of a tree", f"{found.forwarders:.1f}", f"{plan.members} members"),
        ("JOINs per member or forwarder", f"{found.joins:.2f}", "at most 1.3"),
        ("agents with fewer than 3 roots", f"{found.roots_below_3:.2%}", "ELF: 99.5 %, 500 trees"),
        ("agents with fewer than 5 roots", f"{found.roots_below_5:.2%}", "ELF: 99.5 %, 1,000 trees"),
        ("roots of one agent, most", str(found.roots_max), f"{plan.jobs / plan.agents:.2f} on average"),
        ("datagrams to join, per agent", f"{found.join_datagrams:.0f}", ""),
        ("messages for trees, per agent", f"{found.build_messages:.0f}", ""),
        ("kB for trees, per agent", f"{found.build_bytes / 1000:.0f}", ""),
        ("links, per agent", f"{found.links:.1f}", ""),
        ("packets/s of an idle agent", f"{found.idle_packets_per_s:.1f}", "at most 10, with one job"),
        ("bytes/s of an idle agent", f"{found.idle_bytes_per_s:.0f}", ""),
        ("digest", found.digest, "the same for the same seed"),
    ]


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show progress on a terminal's stderr; nothing where nobody looks."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda what, done, total: shown.update(task, description=what, completed=done, total=total)


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(rich_help_panel=_PANEL)(lab)
