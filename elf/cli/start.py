"""The `elf` command's start: an error nobody expected is one sentence and an exit code, too.

Nothing heavy is imported here or by the command modules: each command loads what it needs when it runs, and what only
asks for the version does not wait for the command line to be put together.
"""

from __future__ import annotations

import io
import os
import sys

import elf
from elf.cli.exits import INTERNAL, UNWRITTEN
from elf.cli.output import say
from elf.cli.stdout import OutputError, discard_output, finish_output, guard_output

DEBUG_VARIABLE = "ELF_DEBUG"


def main() -> None:
    """Run the command line; a mistake of ours is one sentence too, unless ELF_DEBUG asks for the traceback."""
    guard_output()
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")
    try:
        try:
            if sys.argv[1:] == ["--version"]:
                print(f"elf {elf.__version__}")
            else:
                from elf.cli.app import app

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
