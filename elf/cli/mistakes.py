"""Job files on the command line: reading them, and pointing at the place in the file when they are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elf.agents.errors import JobSpecError
from elf.cli.exits import USAGE
from elf.cli.output import say
from elf.job_text import read_job

if TYPE_CHECKING:
    from elf.agents.jobs.definition import Definition


def load_job(file: Path) -> Definition:
    """Read a job file to run here; its name does not matter, so a bare SQL file may be called anything."""
    from elf.agents.extensions.signed.job_file import beside
    from elf.agents.jobs.definition import load_definition

    name = "once" if file.suffix == ".sql" else None
    return load_definition(read_job(file), filename=file.name, name=name, read=beside(file))


@contextmanager
def explained(file: Path, *, alone: bool = False) -> Iterator[None]:
    """Say FILE:LINE:COLUMN for what is wrong with a job file, and end the command.

    Mistakes that can be found here come first, for their places count in the file; what only an agent knows (columns,
    types) is about the query, and its place counts from the query's first line; or about a setting that it names.

    Args:
        file: the job file.
        alone: it goes to an agent as it is, without the files of functions beside it.
    """
    try:
        yield
    except JobSpecError as error:
        from elf.checking.validate import check_job, query_finding

        text = read_job(file)
        found = check_job(text, str(file)) or (check_job(text, str(file), alone=True) if alone else ())
        for finding in found or (query_finding(error, text, str(file)),):
            say(str(finding))
        raise typer.Exit(USAGE) from None
