"""Of a job that agents run a table is made by its newest definition."""

from __future__ import annotations

from pathlib import Path

import pytest

from elf.client.results import Version
from elf.offline.asking import JobText
from elf.offline.pipeline.published import of_published
from elf.offline.pipeline.table import Table, TableText
from elf.offline.session import OfflineError

OLD = "SELECT product, count(*) AS n FROM clicks GROUP BY product, window(ts, '10 seconds')"
NEW = OLD.replace("count(*)", "sum(price_cents)")


def job(*history: tuple[str, str]) -> JobText:
    versions = [Version(number, what, query, 0) for number, (what, query) in enumerate(history, 1)]
    return JobText("shop", "top", "clicks", history[-1][1], {"product": "STRING"}, versions=versions)


def test_a_job_that_was_never_changed_is_taken_as_it_is() -> None:
    found, told = of_published(job(("publish", OLD)))
    assert (found.creator, found.name, found.query, told) == ("shop", "top", OLD, "")
    assert of_published(JobText("shop", "top", "clicks", OLD, {}))[1] == "", "of an agent that tells no versions"


def test_of_a_changed_job_the_newest_definition_is_taken_and_said() -> None:
    found, told = of_published(job(("publish", OLD), ("update", NEW)))
    assert found.query == NEW
    assert told.startswith("shop/top was changed while it ran: the table is of its newest definition (version 2), for")


def test_it_is_known_whose_archives_belong_to_it() -> None:
    agents = {"id1": "web-1", "id2": "web-2"}
    found, _ = of_published(JobText("shop", "top", "clicks", OLD, {}, agents=agents, roster=["web-2"]))
    assert (found.names, found.roster) == (agents, ["web-2"])


@pytest.mark.parametrize("what", ["pause", "resume", "reset"])
def test_a_table_goes_on_with_the_same_definition_and_with_no_other(tmp_path: Path, what: str) -> None:
    def opened(text: JobText) -> None:
        found, _ = of_published(text)
        table = Table(tmp_path, found.creator, found.name)
        with table.locked():
            table.open(TableText(found.source, found.query, dict(found.columns)))

    opened(job(("publish", OLD)))
    opened(job(("publish", OLD), (what, OLD)))
    with pytest.raises(OfflineError, match="another definition of the job"):
        opened(job(("publish", OLD), ("update", NEW)))
