"""The pages that follow from the code are what the code says, and have nothing else: both ways."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from elf.agents.http import problems, routes
from elf.agents.language.functions import find, function_names
from elf.agents.settings.config import AgentSection, ApiSection, OverlaySection, PrivacySection, SourceConfig
from elf.checking import schema
from elf.cli import exits
from tests.pages import columns, metrics, settings, sql_functions
from tests.test_documents import DOCUMENTS, ROOT

#: A line of the table of paths: the method, the path, the parameters.
ROUTE = re.compile(r"^\| ([A-Z]+) \| `([^`]+)` \| ([^|]*)\|", re.MULTILINE)


@pytest.mark.parametrize("made", [columns, metrics, settings, sql_functions], ids=lambda made: made.PAGE.name)
def test_a_page_is_what_the_code_says(made: ModuleType) -> None:
    assert made.PAGE.read_text() == made.page(), "scripts/reference writes it anew"


@pytest.mark.parametrize("kind", [AgentSection, OverlaySection, ApiSection, SourceConfig, PrivacySection])
def test_each_setting_is_explained(kind: type[msgspec.Struct]) -> None:
    comments = schema._comments(kind)
    assert all(comments.get(name) for name in kind.__struct_fields__)


def test_each_function_is_explained() -> None:
    assert not [name for name in function_names() if not find(name).sentence.endswith(".")]  # type: ignore[union-attr]


def test_metrics_that_are_named_anywhere_are_there() -> None:
    known = set(re.findall(r"^\| `(\w+)`", metrics.PAGE.read_text(), flags=re.MULTILINE))
    named = {name for page in DOCUMENTS for name in re.findall(r"\belf_(?!stream)\w+", page.read_text())}
    assert not named - known


def rows_of(document: Path, title: str) -> set[str]:
    """Return the first cells of the table below a title."""
    below = document.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `?([\w-]+)`? \|", below, flags=re.MULTILINE))


def problems_made() -> set[str]:
    """Return the names of problems that the API can answer with: what its calls say, and its errors."""
    made = {kind for _, kind, _ in problems._KINDS} | {"error"}
    for module in sorted((ROOT / "agents" / "http").glob("*.py")):
        for node in ast.walk(ast.parse(module.read_text())):
            match node:
                case ast.Call(
                    func=ast.Name(id="problem" | "_refused" | "_body"), args=[_, ast.Constant(value=kind), *_]
                ):
                    made.add(kind)
    return made


def test_each_problem_of_the_api_has_its_line_and_no_other() -> None:
    assert rows_of(ROOT / "docs" / "PROBLEMS.md", "Problems of the API") - {"name"} == problems_made()


def test_each_path_of_the_api_has_its_line_and_no_other() -> None:
    page = (ROOT / "docs" / "API.md").read_text().replace("`JOB", "`" + routes._JOB)
    said = {(method, path): set(re.findall(r"`(\w+)`", known)) for method, path, known in re.findall(ROUTE, page)}
    there = {(each.method, each.path.replace(":.+", "")): each for each in routes._ROUTES}
    assert said.keys() == there.keys()
    for place, route in there.items():
        assert said[place] == set(routes._PARAMETERS.get(route.handler, ())), place


def test_each_exit_code_has_its_line_and_no_other() -> None:
    codes = {str(value) for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert rows_of(ROOT / "docs" / "PROBLEMS.md", "Exit codes") - {"code"} == codes
    assert set(re.findall(r"^\| (\d+) \|", exits.__doc__ or "", flags=re.MULTILINE)) == codes
