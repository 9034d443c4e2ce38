"""The command demo: elf shown on this machine, with servers and visitors made up for it."""

from __future__ import annotations

from typing import Annotated

import typer

#: Of those two are a majority, so that one may fail.
_AGENTS = 3


def demo(
    agents: Annotated[int, typer.Option(min=1, max=20, help="Servers, with an agent each.")] = _AGENTS,
    rate: Annotated[
        float, typer.Option(min=1, max=10_000, help="Events per second and server.", show_default=True)
    ] = 200,
    kill_after: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Kill an agent so long after the first window; 0: none.")
    ] = 60,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="End by itself after so long.", show_default="at Ctrl-C")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds have equal visitors.")] = 1,
) -> None:
    """Show elf on this machine: a made-up shop, its live top ten, and an agent that fails. Leaves nothing behind."""
    from elf.demo.tour import run_tour

    run_tour(agents, rate, seed, kill_after or None, seconds)


def add_commands(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(rich_help_panel="Begin")(demo)
