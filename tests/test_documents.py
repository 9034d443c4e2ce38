"""What the documents point at is there: files, and sections of files; and the first one's settings may be copied."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from elf.agents.http import problems, routes
from elf.checking.validate import check_config, check_job
from elf.cli import exits
from tests import columns, reference

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / name for name in ("README.md", "SECURITY.md", "bench/README.md")]
DOCUMENTS += sorted((ROOT / "docs").glob("*.md"))
#: What makes a problem, of its status and its name.
MAKERS = ("problem", "_refused", "_body")
#: A line of the table of paths: the method, the path, the parameters.
ROUTE = re.compile(r"^\| ([A-Z]+) \| `([^`]+)` \| ([^|]*)\|", re.MULTILINE)


def anchors(document: Path) -> set[str]:
    """The names of a document's sections, as links have them."""
    titles = re.findall(r"^#+ (.*)$", document.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = document.parent / path if path else document
        assert linked.exists(), f"{target}: there is no such file"
        assert not anchor or anchor in anchors(linked), f"{target}: there is no such section"


def test_every_page_can_be_found_from_the_first_one() -> None:
    linked = {(ROOT / target).resolve() for target in re.findall(r"\]\(([^)\s#]+)", (ROOT / "README.md").read_text())}
    assert not {page.name for page in DOCUMENTS[1:]} - {page.name for page in linked}


def test_settings_and_jobs_of_the_first_page_are_valid() -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    jobs = [block for block in blocks if "query = " in block]
    settings = "\n".join(block for block in blocks if block not in jobs)
    assert jobs and "[sources.access.privacy]" in settings
    assert [check_job(job, "README.md") for job in jobs] == [()] * len(jobs)
    assert check_config(settings, "README.md")[1] == ()


def test_the_page_of_columns_is_that_of_the_formats() -> None:
    assert columns.PAGE.read_text() == columns.page(), "scripts/reference writes it anew"


def test_the_page_of_metrics_is_what_an_agent_tells() -> None:
    assert reference.PAGE.read_text() == reference.page(), "scripts/reference writes it anew"


def test_metrics_that_are_named_anywhere_are_there() -> None:
    known = set(re.findall(r"^\| `(\w+)`", reference.PAGE.read_text(), flags=re.MULTILINE))
    named = {name for page in DOCUMENTS for name in re.findall(r"\belf_\w+", page.read_text())}
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
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", exits.__doc__ or "", flags=re.MULTILINE)} == set(
        map(int, codes)
    )
