"""Man pages and completion say what the command line says, in clean roff."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
import typer

from elf.cli.app import app
from elf.cli.index import COMMANDS
from tests.packaging.building import DATE, ROOT


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("made")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": DATE, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, ROOT / "packaging" / "man.py", folder], env=environment, check=True)
    return folder


def plain(page: pathlib.Path) -> str:
    """Render a page as a terminal shows it, without overstrikes."""
    command = ["man", "--local-file", "--warnings", page]
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MANROFFOPT": "-c", "MAN_KEEP_FORMATTING": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return re.sub(".\b", "", done.stdout)


def test_there_is_a_page_for_each_command(made: pathlib.Path) -> None:
    pages = {path.stem for path in (made / "man").iterdir()}
    assert pages == {"elf", *(f"elf-{name}" for name in COMMANDS)}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_all_options_and_no_warnings(made: pathlib.Path, name: str) -> None:
    [page] = (made / "man").glob(f"elf-{name}.[18]")
    words = " ".join(plain(page).split())
    root = typer.main.get_command(app)
    context = typer.Context(root, info_name="elf")
    command = root.get_command(context, name)  # type: ignore[attr-defined]
    for parameter in command.params:
        record = parameter.get_help_record(typer.Context(command, info_name=name, parent=context))
        if record is not None:
            assert all(" ".join(text.split()) in words for text in record), record


def test_the_page_of_all_lists_commands_and_exit_codes(made: pathlib.Path) -> None:
    words = " ".join(plain(made / "man" / "elf.1").split())
    assert all(f"elf-{name}({8 if name == 'agent' else 1})" in words for name in COMMANDS)
    assert "69 no agent answers" in words


@pytest.mark.parametrize("text", [".so /etc/passwd", "'de x", "a\\fBb", "it's `x` --y", "é ☃", "\\", "a\n.b\n'c"])
def test_no_text_is_taken_for_roff(tmp_path: pathlib.Path, text: str) -> None:
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['escaped'](sys.argv[2]))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", code, ROOT / "packaging" / "man.py", text]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    page = tmp_path / "page.1"
    page.write_bytes(b".TH PAGE 1\n.nh\n.SH NAME\nx \\- " + b"y\n.SH TEXT\n" + done.stdout)
    assert " ".join(text.split()) in " ".join(plain(page).split())


def test_shells_take_what_is_made_for_them(made: pathlib.Path) -> None:
    scripts = sorted(path for path in (made / "completion").rglob("*") if path.is_file())
    assert [path.name for path in scripts] == ["elf", "elf.fish", "_elf"] or len(scripts) == 3
    subprocess.run(["bash", "-n", made / "completion" / "bash-completion" / "completions" / "elf"], check=True)
