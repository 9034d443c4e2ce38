"""The `elf` command, as `elf.cli.start` runs it: what holds for all commands, which are in `elf.cli.index`."""

from __future__ import annotations

from typing import Annotated

import typer

import elf
from elf.cli.group import ElfGroup

app = typer.Typer(
    cls=ElfGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain: what draws frames takes longer to load than all else together.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Answers SQL over the logs of many servers, live, with no cluster. "
    "Install an agent, publish a job by name, query it from anywhere.",
    epilog="Exit codes: 0 done, 1 no rows, an unexplained difference, a damaged archive, output not written, "
    "2 wrong usage or job, 69 no agent answers, 70 a mistake of elf's own, 78 wrong configuration, 130 interrupted.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"elf {elf.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass
