"""Man pages and completion, made of the command line itself: `python packaging/man.py FOLDER`.

Writes `man/elf.1`, a page for each command (`elf-agent.8`, which runs as a service, others in section 1), and
completion for bash, zsh and fish. Pages are dated $SOURCE_DATE_EPOCH, else today.
"""

from __future__ import annotations

import datetime
import inspect
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import typer
from typer._completion_shared import get_completion_script

import elf
from elf.cli.app import app
from elf.cli.index import COMMANDS, PANELS

#: Commands that an administrator has run for him.
SERVICES = ("agent",)
#: Where packages put completion for each shell.
COMPLETIONS = {
    "bash": "bash-completion/completions/elf",
    "zsh": "zsh/vendor-completions/_elf",
    "fish": "fish/vendor_completions.d/elf.fish",
}


def escaped(text: str) -> str:
    """Write a text so that nothing in it is a request, an escape, or a dash that searching does not find."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines.splitlines())


def section_of(name: str) -> int:
    """Return the section of a command's page."""
    return 8 if name in SERVICES else 1


def paragraphs(text: str) -> Iterator[str]:
    """Lay out a docstring or a help text."""
    for number, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        if number:
            yield ".PP"
        yield escaped(paragraph)


def header(title: str, section: int, summary: str) -> Iterator[str]:
    """Begin a page."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or datetime.datetime.now(datetime.UTC).timestamp())
    date = datetime.datetime.fromtimestamp(seconds, datetime.UTC).date().isoformat()
    yield f'.TH {title.upper()} {section} "{date}" "elf {elf.__version__}" "elf"'
    # Names are searched for by their dashes; words are not to be torn apart.
    yield from (".nh", ".ad l", ".SH NAME", f"{escaped(title)} \\- {escaped(summary.rstrip('.'))}")


def parameters(command: Any, context: Any) -> Iterator[str]:
    """List what a command takes, as `--help` does."""
    records = [(each, each.get_help_record(context)) for each in command.get_params(context)]
    for heading, wanted in (("ARGUMENTS", "argument"), ("OPTIONS", "option")):
        shown = [record for each, record in records if each.param_type_name == wanted and record is not None]
        if shown:
            yield f".SH {heading}"
        for names, told in shown:
            yield from (".TP", f".B {escaped(names)}", escaped(told or "\\&"))


def page_of(root: Any, name: str) -> list[str]:
    """Make a command's page."""
    top = typer.Context(root, info_name="elf")
    command = root.get_command(top, name)
    context = typer.Context(command, info_name=name, parent=top)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [*header(f"elf-{name}", section_of(name), COMMANDS[name].summary), ".SH SYNOPSIS"]
    lines += [f".B elf {name}", escaped(usage), ".SH DESCRIPTION", *paragraphs(command.help or "")]
    lines += [*parameters(command, context), ".SH SEE ALSO", ".BR elf (1)"]
    return lines


def page_of_all(root: Any) -> list[str]:
    """Make the page of the whole, which lists the commands."""
    context = typer.Context(root, info_name="elf")
    summary = "stream processor with no cluster: SQL over the logs of many servers"
    lines = [*header("elf", 1, summary), ".SH SYNOPSIS", ".B elf", escaped("[OPTIONS] COMMAND [ARGS]...")]
    lines += [".SH DESCRIPTION", *paragraphs(root.help or ""), *parameters(root, context), ".SH COMMANDS"]
    for panel, entries in PANELS.items():
        lines.append(f".SS {escaped(panel)}")
        for entry in entries:
            reference = f".BR elf\\-{escaped(entry.name)} ({section_of(entry.name)})"
            lines += [".TP", reference, escaped(entry.summary)]
    return [*lines, ".SH EXIT STATUS", *paragraphs(root.epilog or "")]


def write(folder: pathlib.Path, name: str, lines: Iterable[str]) -> None:
    """Write a page."""
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Write everything below the folder that is named."""
    out = pathlib.Path(sys.argv[1])
    root: Any = typer.main.get_command(app)
    man = out / "man"
    man.mkdir(parents=True, exist_ok=True)
    write(man, "elf.1", page_of_all(root))
    for name in COMMANDS:
        write(man, f"elf-{name}.{section_of(name)}", page_of(root, name))
    for shell, place in COMPLETIONS.items():
        script = out / "completion" / place
        script.parent.mkdir(parents=True, exist_ok=True)
        text = get_completion_script(prog_name="elf", complete_var="_ELF_COMPLETE", shell=shell)
        script.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
