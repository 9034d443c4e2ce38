"""The commands backup and restore: what outlives a lost disk."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elf.agents.errors import BadRequestError
from elf.cli.connection import AsJson
from elf.cli.output import describe_time, print_json, say, wants_json
from elf.cli.settings import USUAL_SETTINGS, usual_settings

if TYPE_CHECKING:
    from elf.backup.manifest import Manifest

_PANEL = "Agents"


def backup(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="SETTINGS", help="The agent's settings.", show_default=USUAL_SETTINGS),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE.tar.gz", help="The backup.", show_default="elf-backup-TIME.tar.gz, here"),
    ] = None,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Pack the files with secrets that the settings name, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Copy an agent's results, jobs and settings into one file, while it runs; without secrets, and without logs.

    Run it as the agent's user, or as root.
    """
    from elf.backup.backup import pack
    from elf.checking.validate import read_config

    settings = file or usual_settings()
    if settings is None:
        raise BadRequestError("there are no settings where they usually are; write elf backup SETTINGS")
    out = to or Path(time.strftime("elf-backup-%Y%m%dT%H%M%SZ.tar.gz", time.gmtime()))
    manifest = pack(settings, read_config(settings), out, time.time_ns() // 1_000_000, secrets=with_secrets)
    if wants_json(as_json):
        print_json({"file": str(out), "backup": manifest})
    else:
        print(f"wrote {out}: results of {_jobs(manifest)}")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE.tar.gz", help="What `elf backup` has written.")],
    data: Annotated[Path, typer.Option(metavar="DIR", help="The agent's data folder: empty, or not there yet.")],
    texts: Annotated[
        Path | None,
        typer.Option("--texts", metavar="DIR", help="Also write its settings, jobs and secrets into this new folder."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make an agent's data folder of a backup. It is a new agent, which keeps the results and reads its logs again."""
    from elf.backup.restoration import restore as put_back
    from elf.backup.restoration import write_texts

    written = write_texts(file, texts) if texts is not None else []
    manifest = put_back(file, data, time.time_ns() // 1_000_000)
    if wants_json(as_json):
        print_json({"data": str(data), "written": written, "backup": manifest})
        return
    for each in written:
        say(f"wrote {each}")
    print(f"{data} has results of {_jobs(manifest)}, as of {describe_time(manifest.made_ms)}")
    say("Windows up to now count a gap: what was decided after the backup is not in it. The agent is a new one: it")
    say("reads its logs from the front, without what was counted, if it comes back at its address; else retire the old")
    say(f"one, once it runs: elf retire {manifest.agent}")


def _jobs(manifest: Manifest) -> str:
    return ", ".join(manifest.jobs) or "no job, of none of which this agent is a master"


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    for command in (backup, restore):
        app.command(rich_help_panel=_PANEL)(command)
