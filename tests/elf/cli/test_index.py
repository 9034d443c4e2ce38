"""What help says of commands without loading them is what they say themselves."""

from __future__ import annotations

import inspect
import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest
import typer
from typer.testing import CliRunner

import elf.cli
from elf.cli.app import app
from elf.cli.group import ElfGroup
from elf.cli.index import COMMANDS, PANELS

#: What `elf --help` may load of ours: more makes it slower for all commands.
LIGHT = {"elf", "elf.agent_url", "elf.agents", "elf.agents.errors", "elf.cli"} | {
    f"elf.cli.{name}" for name in ("app", "exits", "group", "index", "output", "start", "stdout")
}
LOADED = """
import sys
from elf.cli.start import main
try:
    main()
finally:
    print([name for name in sys.modules if name.partition(".")[0] == "elf"], file=sys.stderr)
    print([name for name in ("msgspec", "pydantic", "rich", "typer") if name in sys.modules], file=sys.stderr)
"""


def added(module: str) -> dict[str, tuple[str | None, str]]:
    """Return the commands that a module adds, with panel and the first paragraph of the docstring."""
    alone = typer.Typer()
    import_module(f"elf.cli.{module}").add_commands(alone)
    commands = {}
    for info in alone.registered_commands:
        assert info.callback is not None
        name = info.name or info.callback.__name__.replace("_", "-")
        summary = inspect.cleandoc(info.callback.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        commands[name] = (info.rich_help_panel, summary)
    return commands


def adding() -> list[str]:
    """Return the modules of the command line that add commands."""
    names = [module.name for module in pkgutil.iter_modules(elf.cli.__path__)]
    return [name for name in names if hasattr(import_module(f"elf.cli.{name}"), "add_commands")]


@pytest.mark.parametrize("module", adding())
def test_the_index_says_what_modules_say(module: str) -> None:
    indexed = {
        entry.name: (panel, entry.summary)
        for panel, entries in PANELS.items()
        for entry in entries
        if entry.module == module
    }
    assert indexed == added(module)


def test_each_command_is_there_once() -> None:
    assert len(COMMANDS) == sum(map(len, PANELS.values()))
    assert {entry.module for entry in COMMANDS.values()} == set(adding())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_found_by_its_name(name: str) -> None:
    told = CliRunner().invoke(app, [name, "--help"])
    assert told.exit_code == 0
    assert " ".join(COMMANDS[name].summary.split()[:4]) in " ".join(told.stdout.split())


def test_a_name_that_is_nearly_right_is_told() -> None:
    told = CliRunner().invoke(app, ["quer"])
    assert told.exit_code == 2
    assert "Did you mean 'query'?" in told.stderr


def test_names_are_completed_without_loading_commands() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, ElfGroup)
    found = group.shell_complete(typer.Context(group), "re")
    assert {item.value for item in found} == {name for name in COMMANDS if name.startswith("re")}


@pytest.mark.parametrize(
    ("arguments", "others"), [(["--version"], []), (["--help"], ["typer"]), (["jobs", "--help"], ["typer"])]
)
def test_what_only_tells_loads_little(arguments: list[str], others: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    ours, theirs = (eval(line) for line in done.stderr.splitlines()[-2:])
    of_commands = {"elf.cli.jobs", "elf.cli.connection", "elf.cli.mistakes", "elf.job_text"}
    allowed = LIGHT | of_commands if arguments[0] == "jobs" else LIGHT
    assert not [name for name in ours if name not in allowed and not name.startswith("__editable__")]
    assert [name for name in theirs if name != "pydantic"] == others
