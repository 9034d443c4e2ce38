"""Job files on the command line: reading them, and pointing at the place in the file when they are wrong."""

from __future__ import annotations

import os
import sys
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

#: Of a job from standard input.
JOB_BYTES_MAX = 1 << 20
#: What a query begins with.
_QUERIES = ("select",)


def load_job(file: Path, text: str | None = None) -> Definition:
    """Read a job to run here: a file, whose name does not matter (bare SQL may be called anything), or a text."""
    from elf.agents.extensions.signed.job_file import beside
    from elf.agents.jobs.definition import load_definition

    name = "once" if file.suffix == ".sql" else None
    text = read_job(file) if text is None else text
    return load_definition(text, filename=file.name, name=name, read=beside(file))


def written(job: str) -> tuple[Path, str | None]:
    """Return the job that an argument stands for: a file, `-` for standard input, or the text of a query itself.

    Returns:
        What it is called, and the text if that is not in a file of this name.
    """
    if job == "-":
        text = sys.stdin.read(JOB_BYTES_MAX)
        return Path("query.toml" if text.lstrip()[:6].lower() not in _QUERIES else "query.sql"), text
    if job.lstrip()[:6].lower() in _QUERIES and not os.path.exists(job):
        return Path("query.sql"), job
    return Path(job), None


@contextmanager
def explained(file: Path, *, alone: bool = False, text: str | None = None) -> Iterator[None]:
    """Say FILE:LINE:COLUMN for what is wrong with a job file, and end the command.

    Mistakes that can be found here come first, for their places count in the file; what only an agent knows (columns,
    types) is about the query, and its place counts from the query's first line; or about a setting that it names.

    Args:
        file: the job file.
        alone: it goes to an agent as it is, without the files of functions beside it.
        text: what it holds, if that is in no file.
    """
    try:
        yield
    except JobSpecError as error:
        from elf.checking.validate import check_job, query_finding

        text = read_job(file) if text is None else text
        found = check_job(text, str(file)) or (check_job(text, str(file), alone=True) if alone else ())
        for finding in found or (query_finding(error, text, str(file)),):
            say(str(finding))
        raise typer.Exit(USAGE) from None
