"""The group of all commands: loads a command when it runs, and turns errors into one sentence and an exit code."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from elf.agents.errors import ElfError
from elf.cli.exits import INTERRUPTED, exit_code_of
from elf.cli.index import COMMANDS, PANELS
from elf.cli.output import say
from elf.cli.stdout import discard_output


class Commands(MutableMapping[str, Any]):
    """The commands by their names; each is loaded, with what else its module adds, when it is looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            # A KeyError here is for who asked: there is no such command.
            add_commands = import_module(f"elf.cli.{COMMANDS[name].module}").add_commands
            # It takes the defaults of one command alone for those of the whole, so there is always another.
            added = typer.Typer(rich_markup_mode=None, add_completion=False, callback=_nothing)
            add_commands(added)
            group = typer.main.get_group(added)
            self._loaded.update(group.commands)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]


def _nothing() -> None:
    pass


class ElfGroup(TyperGroup):
    """Runs a command; errors raised on purpose become a sentence on stderr, never a traceback."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": None})
        self.commands = Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, and load none."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write what each command does, panel by panel."""
        for panel, entries in PANELS.items():
            with formatter.section(panel):
                formatter.write_dl([(entry.name, entry.summary) for entry in entries])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return what may stand for the beginning of a command's name, or of an option."""
        from typer._click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.summary) for name, entry in COMMANDS.items() if name.startswith(incomplete)
        ]
        return found + super(TyperGroup, self).shell_complete(ctx, incomplete)

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
