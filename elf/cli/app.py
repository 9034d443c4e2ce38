"""The `elf` command: its commands put together, and errors turned into one sentence and an exit code.

Nothing heavy is imported here or by the command modules: each command loads what it needs when it runs.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import elf
from elf.agents.errors import ElfError
from elf.cli import (
    agent,
    applications,
    backfill,
    changes,
    demo,
    doctor,
    explain,
    init,
    jobs,
    keys,
    lab,
    oversight,
    pipeline,
    run,
    sample,
    top,
    verify,
)
from elf.cli.exits import INTERNAL, INTERRUPTED, UNWRITTEN, exit_code_of
from elf.cli.output import say
from elf.cli.stdout import OutputError, discard_output, finish_output, guard_output

DEBUG_VARIABLE = "ELF_DEBUG"


class ElfGroup(TyperGroup):
    """Runs a command; errors raised on purpose become a sentence on stderr, never a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was chosen."""
        try:
            return super().invoke(ctx)
        except ElfError as error:
            say(f"elf: {error}")
            raise typer.Exit(exit_code_of(error)) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader (head, less) has seen enough.
            discard_output()
            raise typer.Exit(0) from None


app = typer.Typer(
    cls=ElfGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
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


for _module in (
    demo,
    init,
    agent,
    doctor,
    keys,
    jobs,
    top,
    changes,
    applications,
    explain,
    run,
    sample,
    verify,
    backfill,
    pipeline,
    lab,
    oversight,
):
    _module.add_commands(app)


def main() -> None:
    """Run the command line; a mistake of ours is one sentence too, unless ELF_DEBUG asks for the traceback."""
    guard_output()
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")
    try:
        try:
            app(prog_name="elf")
        finally:
            finish_output()
    except OutputError as error:
        say(f"elf: {error}")
        discard_output()
        sys.exit(UNWRITTEN)
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        say(f"elf: internal error, {type(error).__name__}: {error}; {DEBUG_VARIABLE}=1 shows where")
        sys.exit(INTERNAL)
