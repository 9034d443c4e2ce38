"""The command explain: what a job does, where, what it shares with others and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elf.agent_url import TIMEOUT_S
from elf.cli.connection import AgentUrls, AsJson, Timeout, TokenFile, connect
from elf.cli.mistakes import explained
from elf.cli.output import console, describe_time, print_json, printable, wants_json
from elf.job_text import read_job

if TYPE_CHECKING:
    from rich.table import Table

Json = dict[str, Any]
_PLACES = {"agents": "at agents", "tree": "on the tree", "master": "at the master"}


def explain(
    job: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A published job's (CREATOR/)NAME, or a job file (.toml, .sql).")
    ],
    agent: AgentUrls = None,
    token_file: TokenFile = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show a job's plan, what it shares with other jobs, its tree and its cost; a file's plan needs no agent."""
    if job.endswith((".toml", ".sql")):
        found = _of_file(Path(job))
    else:
        with connect(agent, token_file, timeout) as client:
            found = client.explain(job)
    if wants_json(as_json):
        print_json(found)
    else:
        console().print(explained_table(found))


def _of_file(file: Path) -> Json:
    from elf.agents.extensions.signed.job_file import beside
    from elf.agents.jobs.definition import load_definition
    from elf.agents.jobs.explanation import explain_definition

    with explained(file):
        return explain_definition(load_definition(read_job(file), filename=file.name, read=beside(file)))


def explained_table(found: Json) -> Table:
    """Lay an explanation out: what is said, and what about."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    said = ""
    for about, text in [*_head(found), *_plan(found), *_steps(found), *_running(found)]:
        table.add_row(Text("" if about == said else about), Text(printable(text)))
        said = about
    return table


def _head(found: Json) -> list[tuple[str, str]]:
    rows = [("job", found["job"])]
    if found["state"] is not None:
        rows.append(("state", f"{found['state']}, version {found['version']}, master {found['master']}"))
    for each in found["versions"] or ():
        since = "" if each["since_ms"] is None else f", for events from {describe_time(each['since_ms'])} on"
        rows.append(("versions", f"{each['version']} by {each['what']}{since}"))
    return rows


def _plan(found: Json) -> list[tuple[str, str]]:
    from elf.agents.language.durations import duration

    rows = [
        ("source", found["source"]),
        ("columns", ", ".join(f"{each['name']} {each['type'] or '?'}" for each in found["columns"])),
    ]
    if found["prefilter"] is None or found["prefilter"]:
        texts = found["prefilter"]
        rows.append(("pre-filter", "?" if texts is None else ", ".join(map(repr, texts))))
    rows += [("functions", _own(each)) for each in found["functions"]]
    rows += [("filter", found["filter"])] if found["filter"] else []
    rows += [("keys", f"{each['expression']} {each['type'] or '?'}") for each in found["keys"]]
    rows += [("aggregates", _aggregate(each)) for each in found["aggregates"]]
    rows.append(("interval", f"{duration(found['interval_ms'])}, lateness {duration(found['lateness_ms'])}"))
    window = found["window"]
    if window is not None:
        rows.append(("window", f"{duration(window['size_ms'])} every {duration(window['slide_ms'])}"))
    rows.append(("straggler", f"{found['straggler']}, after {duration(found['leap_after_ms'])}"))
    return rows


def _own(each: Json) -> str:
    signed = "not signed" if each["key"] is None else f"signed with key {each['key']}"
    return f"{each['name']}({', '.join(each['args'])}) {each['returns']}, the job's own, {signed}"


def _aggregate(each: Json) -> str:
    inverse = {True: "has an inverse", False: "no inverse", None: "inverse: ?"}[each["inverse"]]
    columns = "?"
    if each["slots"] is not None and each["states"] is not None:
        columns = ", ".join(f"{one['name'] or '?'} {one['type'] or '?'}" for one in (*each["slots"], *each["states"]))
    return f"{each['expression']}: {inverse}, PAO columns {columns}"


def _steps(found: Json) -> list[tuple[str, str]]:
    return [(_PLACES.get(place, place), step) for place, steps in found["steps"].items() for step in steps]


def _running(found: Json) -> list[tuple[str, str]]:
    rows = []
    sharing, tree, cost = found["sharing"], found["tree"], found["cost"]
    if sharing is not None:
        rows.append(("shared", f"parsing with {_jobs(sharing['parsing'])}"))
        if found["filter"]:
            rows.append(("shared", f"filtering with {_jobs(sharing['filtering'])}"))
        rows.append(("shared", f"PAOs, made once, with {_jobs(sharing['paos'])}"))
        rows.append(("shared", f"buffer trees of open intervals with {_jobs(sharing['trees'])}"))
        own = ", ".join(sharing["own_columns"]) or "none"
        rows.append(("shared", f"columns that are parsed for this job alone: {own}"))
    if tree is not None:
        of = f", the first of {tree['trees']}" if tree["trees"] > 1 else ""
        shape = f"{tree['agents']} agents, {tree['depth']} deep, at most {tree['children_max']} children each"
        lost = f", {tree['unreachable']} out of reach" if tree["unreachable"] else ""
        rows.append(("tree", f"{shape}, root {tree['root']}{lost}{of}"))
    if cost is not None:
        shares = sharing is not None and sharing["trees"]["count"] > 0
        rows += [("cost", text) for text in _costs(cost, found["options"]["trees"], shares)]
    return rows + [("not known", text) for text in found["unknown"]]


def _costs(cost: Json, trees: int, shares: bool) -> list[str]:
    said = []
    if cost["agent"] is not None:
        mean = cost["snapshot_bytes"]
        sizes = "none yet" if mean is None else f"{cost['snapshots']:,} so far, {_bytes(mean)} each"
        open_bytes = f"{_bytes(cost['open_bytes'])} of open intervals{' (shared ones in part)' if shares else ''}"
        said.append(f"at {cost['agent']}: {open_bytes}; snapshots not empty: {sizes}")
    rows = cost["pane_rows"]
    size = "" if rows is None else f", the newest of {rows:,} rows on average and {cost['pane_rows_max']:,} at most"
    place = "at the master" if trees == 1 else f"at its {trees} masters together"
    return [*said, f"{place}: {cost['panes']:,} panes{size}"]


def _jobs(listed: Json) -> str:
    if not listed["count"]:
        return "no other job"
    names, more = listed["jobs"][:10], listed["count"] - 10
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _bytes(count: int) -> str:
    for unit in ("bytes", "KiB"):
        if count < 1024 * 10:
            return f"{count:,} {unit}"
        count //= 1024
    return f"{count:,} MiB"


def add_commands(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(rich_help_panel="Jobs")(explain)
