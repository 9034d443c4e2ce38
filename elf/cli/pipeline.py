"""The command pipeline: a job's windows as Parquet tables that follow the agents' archives, by Spark."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elf.agent_url import TIMEOUT_S
from elf.cli.connection import AgentUrls, AsJson, Timeout, TokenFile, connect
from elf.cli.mistakes import explained
from elf.cli.output import print_json, printable, say, wants_json
from elf.cli.spark import HERE, PANEL, Archives, SparkConf, SparkMaster, describe_span
from elf.job_text import read_job

if TYPE_CHECKING:
    from elf.offline.pipeline.run import Done, PipelineJob

_ONCE = "available-now"


def pipeline(
    job: Annotated[
        str, typer.Argument(metavar="JOB|NAME", help="A job file (.toml, .sql), or a published job's (CREATOR/)NAME.")
    ],
    archive: Archives,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where tables go; all of a cluster have to see it.")],
    trigger: Annotated[
        str, typer.Option(metavar="available-now|30s", help="Do what there is to do and end, or look again every 30 s.")
    ] = _ONCE,
    since: Annotated[
        str | None, typer.Option(metavar="7d|TIME", help="Leave windows alone that begin before; default: none.")
    ] = None,
    master: SparkMaster = HERE,
    conf: SparkConf = None,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Keep a job's windows as a Parquet table in step with the archives; can be interrupted and run again any time."""
    from elf.agents.language.durations import parse_duration_ms

    try:
        trigger_ms = None if trigger == _ONCE else parse_duration_ms(trigger)
    except ValueError as error:
        raise typer.BadParameter(f"{error}; or {_ONCE}", param_hint="--trigger") from None
    from elf.offline.archives import open_archives
    from elf.offline.pipeline.run import Settings, run_pipeline
    from elf.offline.progress import shown
    from elf.offline.session import parse_conf

    settings, archives = parse_conf(conf or ()), open_archives(archive)
    file = Path(job) if job.endswith((".toml", ".sql")) else None
    found = _published(job, agent, token_file, timeout) if file is None else _from_file(file)
    key, as_json = f"{found.creator}/{found.name}", wants_json(as_json)
    passes = 0

    def done(one: Done) -> None:
        nonlocal passes
        passes += 1
        if as_json:
            print_json({"job": key, "table": str(out / found.creator / found.name), **_plain(one)})
        else:
            print(f"{printable(key)}: {_describe(one)}", flush=True)

    with shown(sys.stderr.isatty()) as steps, explained(file) if file else nullcontext():
        since_ms = None if since is None else _since_ms(since, found)
        where = Settings(archives, out, since_ms, trigger_ms, master, settings)
        run_pipeline(found, where, steps=steps, done=done, say=say)
    if not passes:
        say(f"{printable(key)}: nothing new that has ended")


def _from_file(file: Path) -> PipelineJob:
    from elf.agents.errors import JobError
    from elf.agents.extensions.signed.job_file import beside
    from elf.agents.jobs.definition import load_definition
    from elf.offline.asking import refuse_own
    from elf.offline.pipeline.run import PipelineJob

    with explained(file):
        job = load_definition(read_job(file), filename=file.name, read=beside(file))
        if job.joined is not None:
            raise JobError("a job over other jobs has no events of its own: keep tables of those")
    refuse_own([each.name for each in job.functions], job.key)
    return PipelineJob(job.creator, job.name, job.source, job.query, job.columns, job.options.lateness_ms)


def _published(name: str, agent: list[str] | None, token_file: Path | None, timeout: float) -> PipelineJob:
    from elf.offline.asking import describe
    from elf.offline.pipeline.published import of_published

    with connect(agent, token_file, timeout) as client:
        job, told = of_published(describe(client, name))
    if told:
        say(told)
    return job


def _since_ms(since: str, job: PipelineJob) -> int:
    from elf.agents.language.query import parse_query
    from elf.offline.since import parse_since

    return parse_since(since, None if parse_query(job.query).window is None else time.time_ns() // 1_000_000)


def _plain(one: Done) -> dict[str, int | None]:
    return {
        "windows": one.windows,
        "with_rows": one.with_rows,
        "start_ms": one.since_ms,
        "end_ms": one.until_ms,
        "files": one.files,
        "events": one.events,
    }


def _describe(one: Done) -> str:
    read = f"{one.files:,} file{'' if one.files == 1 else 's'} with {one.events:,} events"
    if one.until_ms is None or one.since_ms is None:
        return f"the total, of {read}"
    windows = f"{one.windows:,} windows" if one.windows > 1 else "1 window"
    return f"{windows} from {describe_span(one.since_ms, one.until_ms)}, of {read}"


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(rich_help_panel=PANEL)(pipeline)
