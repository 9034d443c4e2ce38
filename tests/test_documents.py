"""What the documents point at is there: files, and sections of files; and the first one's settings may be copied."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from elf.checking.validate import check_config, check_job
from tests.columns import PAGE, page

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / name for name in ("README.md", "SECURITY.md", "bench/README.md")]
DOCUMENTS += sorted((ROOT / "docs").glob("*.md"))


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
    assert PAGE.read_text() == page(), "scripts/columns writes it anew"
