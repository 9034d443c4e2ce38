"""Commands that ask an agent: publish, jobs, query, watch, members, tree, stop, retire."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from elf.agent_url import TIMEOUT_S
from elf.cli.connection import AgentUrls, AsJson, JobName, SigningKey, Timeout, TokenFile, connect
from elf.cli.exits import NO_RESULT, UNAVAILABLE
from elf.cli.mistakes import explained
from elf.cli.output import (
    confirm,
    console,
    describe_time,
    print_json,
    printable,
    result_table,
    say,
    table_of,
    wants_json,
)

if TYPE_CHECKING:
    from rich.tree import Tree as Drawing

    from elf.agents.wire.result import Result
    from elf.client import Job, Tree, TreeNode
    from elf.client.results import Gap

_PANEL = "Jobs"


def publish(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A job: TOML, or bare SQL in a .sql file.")],
    name: Annotated[str | None, typer.Option(help="Publish under this name.")] = None,
    creator: Annotated[str | None, typer.Option(help="The job's creator, if the file names none.")] = None,
    key: SigningKey = None,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Publish a job; every agent that has its source joins in."""
    with connect(agent, token_file, timeout) as client, explained(file, alone=key is None):
        job = client.publish(file, name=name, creator=creator, key=key)
    if wants_json(as_json):
        print_json(job)
    else:
        print(f"published {printable(job.key)}, master {printable(job.master)}")
        say(f"see it with: elf watch {job.key}")


def list_jobs(
    agent: AgentUrls = None, token_file: TokenFile = None, timeout: Timeout = TIMEOUT_S, as_json: AsJson = False
) -> None:
    """List the jobs: those that run, and those that are stopped and can be resumed, with how long."""
    with connect(agent, token_file, timeout) as client:
        jobs = client.jobs()
    if wants_json(as_json):
        for job in jobs:
            print_json(job)
    else:
        now_ms = time.time_ns() // 1_000_000
        rows = [(job.key, job.source, describe_state(job, now_ms), job.version, job.master) for job in jobs]
        console().print(table_of(("job", "source", "state", "version", "master"), rows))
        for job in jobs:
            if job.trouble:
                say(f"{printable(job.key)}: {printable(job.trouble)}")


def describe_state(job: Job, now_ms: int) -> str:
    """Write a job's state for people; of a stopped one also how long it can be resumed."""
    if job.ends_ms is None or job.state != "stopped":
        return job.state
    minutes = (job.ends_ms - now_ms) // 60_000
    if minutes < 1:
        return f"{job.state}, ends within a minute"
    hours = f"{minutes // 60} h " if minutes >= 60 else ""
    return f"{job.state}, {hours}{minutes % 60} min left to resume it"


def query(
    name: JobName,
    window: Annotated[
        str, typer.Option(help="latest, START/END (ISO-8601 or epoch ms), or a length: 300s.")
    ] = "latest",
    key: Annotated[
        str | None, typer.Option(metavar="VALUE", help="Only rows whose first group key has this value.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Most rows to show.")] = None,
    require: Annotated[
        str | None, typer.Option(metavar="complete", help="complete: show a final result that lacks nothing, or fail.")
    ] = None,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Ask a job for one result; exit code 1 if it has no rows."""
    with connect(agent, token_file, timeout) as client:
        result = client.query(name, window, key=key, limit=limit, require=require)
    if wants_json(as_json):
        print_json(result)
    else:
        console().print(result_table(result))
        say("asked " + " > ".join(result.hops or [result.master]))
    if not result.rows:
        column, is_pair, value = (key or "").partition("=")
        if is_pair and column in (each.name for each in result.columns):
            say(f"no first group key has this value; without the column's name it is --key {printable(value)}")
        raise typer.Exit(NO_RESULT)


def watch(
    name: JobName,
    until: Annotated[
        Literal["converged"] | None, typer.Option(help="converged: end with a result that is the job's last one.")
    ] = None,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Follow a job's results until interrupted; a table that refreshes, or one JSON line per result."""
    from elf.client.until import is_reached

    newest: Result | None = None
    with connect(agent, token_file, timeout) as client:
        if wants_json(as_json):
            for result in client.watch(name, until=until):
                print_json(result)
            return
        from rich.live import Live

        with Live(console=console(), auto_refresh=False) as live:
            for newest in client.watch(name, until=until):
                live.update(result_table(newest), refresh=True)
    ended = newest is not None and is_reached(newest, until)
    say(f"{name} {'has converged' if ended else 'was stopped'}")


def members(
    agent: AgentUrls = None, token_file: TokenFile = None, timeout: Timeout = TIMEOUT_S, as_json: AsJson = False
) -> None:
    """List the agents that the asked one knows and that answer, 256 at most."""
    with connect(agent, token_file, timeout) as client:
        known = client.members()
    if wants_json(as_json):
        for member in known:
            print_json(member)
    else:
        rows = [(m.name, m.address, ", ".join(m.sources), m.release, "this one" if m.is_self else "") for m in known]
        console().print(table_of(("name", "address", "sources", "release", ""), rows))


def tree(
    name: JobName,
    part: Annotated[int, typer.Option(min=0, help="Which of the job's trees, counted from 0.")] = 0,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Draw a job's reducer tree from its root, the job's master."""
    with connect(agent, token_file, timeout) as client:
        reducers = client.tree(name, part)
    if wants_json(as_json):
        print_json(reducers)
    else:
        console().print(draw_tree(reducers))


def stop(
    name: JobName,
    keep: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long it can be resumed, 7d at most; 0s: it ends for good."),
    ] = None,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Stop a job on all agents; for a day `elf resume` takes it up again, then it ends for good."""
    with connect(agent, token_file, timeout) as client:
        stopped = client.stop(name, keep)
    key = f"{stopped.creator}/{stopped.name}"
    if stopped.ends_ms is None:
        say(f"{key} has ended for good")
    else:
        say(f"{key} is stopped; until {describe_time(stopped.ends_ms)} this takes it up again: elf resume {key}")


def force(
    name: JobName,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Let this agent go on alone with a job most of whose root group is gone for good: for disasters only."""
    confirm(f"What the others decided last of {name} may be lost; if they live after all, two masters count.", yes)
    with connect(agent, token_file, timeout) as client:
        client.force(name)
    say(f"{agent} goes on with {name}")


def retire(
    name: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name, address or id.")],
    job: Annotated[str | None, typer.Option(metavar="NAME", help="Only in this job; default: in all.")] = None,
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Say that an agent is gone for good: no job waits for it any more; if it comes back it is admitted again."""
    with connect(agent, token_file, timeout) as client:
        retired = client.retire(name, job)
    if wants_json(as_json):
        print_json(retired)
    else:
        print(f"{printable(retired.name)} ({printable(retired.agent)}) is expected no more")
        for gap in retired.jobs:
            print(f"{printable(gap.job)} {_describe_gap(gap)}")
    for untold in retired.unreachable:
        whom = f"{printable(untold.job)} " if untold.job else ""
        say(f"not told: {whom}{printable(untold.why)}; say it again later")
    if retired.unreachable:
        raise typer.Exit(UNAVAILABLE)


def _describe_gap(gap: Gap) -> str:
    if gap.missing_since_ms is None:
        return "never had its data"
    return f"has its data up to {describe_time(gap.missing_since_ms)}"


def draw_tree(tree: Tree) -> Drawing:
    """Lay out a reducer tree; agents whose parent is unknown stand beside the root, marked."""
    from rich.tree import Tree as Drawing

    children: dict[str | None, list[TreeNode]] = {}
    ids = {node.id for node in tree.nodes}
    for node in sorted(tree.nodes, key=lambda node: (node.name, node.address)):
        place = None if node.id == tree.root or node.parent not in ids else node.parent
        children.setdefault(place, []).append(node)
    drawing = Drawing("", hide_root=True)
    pending = [(drawing, node) for node in reversed(children.pop(None, []))]
    while pending:
        above, node = pending.pop()
        branch = above.add(_node_label(node, tree.root))
        pending += [(branch, child) for child in reversed(children.pop(node.id, []))]
    return drawing


def _node_label(node: TreeNode, root: str | None) -> str:
    from rich.markup import escape

    label = escape(printable(node.name or node.address))
    address = f" [dim]{escape(printable(node.address))}[/dim]" if node.name else ""
    if node.id == root:
        return f"[bold]{label}[/bold]{address} root, the job's master"
    detached = "" if node.parent is not None else " [yellow]no parent yet[/yellow]"
    return f"{label}{address} {escape(printable(node.role))}{detached}"


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    for command, name in (
        (publish, "publish"),
        (list_jobs, "jobs"),
        (query, "query"),
        (watch, "watch"),
        (members, "members"),
        (tree, "tree"),
        (stop, "stop"),
        (retire, "retire"),
        (force, "force"),
    ):
        app.command(name, rich_help_panel=_PANEL)(command)
