"""The recipes say what the example's log gives, and agents take them as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.plan import compile_job
from elf.agents.sources.format import make_format
from elf.agents.sources.times.zones import UTC
from elf.cli.app import app
from tests.test_documents import ROOT

PAGE, LOG = ROOT / "docs" / "RECIPES.md", ROOT / "examples" / "recipes" / "access.log"
#: A title, the query, and what it gives.
RECIPE = re.compile(r"^## (\d+\. [^\n]*)\n\n```sql\n(.*?)\n```\n.*?^```\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
RECIPES = RECIPE.findall(PAGE.read_text())


def layout() -> str:
    """Return the log_format of the page, as one line."""
    (block,) = re.findall(r"^```nginx\nlog_format timed (.*?);\n```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return "".join(re.findall(r"'([^']*)'", block))


def answers(query: str, folder: Path) -> str:
    """Return what `elf run` prints."""
    job = folder / "job.sql"
    job.write_text(query)
    done = CliRunner().invoke(app, ["run", str(job), "--input", str(LOG), "--format", layout()])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_there_are_twelve() -> None:
    assert [title.split(".")[0] for title, _, _ in RECIPES] == [str(number) for number in range(1, 13)]


@pytest.mark.parametrize("query, said", [each[1:] for each in RECIPES], ids=[each[0] for each in RECIPES])
def test_a_recipe_gives_what_it_says(query: str, said: str, tmp_path: Path) -> None:
    assert answers(query, tmp_path) == said


@pytest.mark.parametrize("query", [each[1] for each in RECIPES], ids=[each[0] for each in RECIPES])
def test_agents_take_it(query: str) -> None:
    definition = load_definition(query, filename="job.sql")
    columns = make_format(layout(), zone=UTC).columns
    assert columns is not None
    assert compile_job(definition, columns).output
