"""Jobs as agents describe them."""

from __future__ import annotations

from typing import Any

import pytest

from elf.agents.errors import JobError
from elf.offline.asking import Part, describe

PLAIN = {"creator": "shop", "name": "top", "source": "clicks", "query": "", "columns": {"product": "STRING"}}


class Client:
    """Answers with one description."""

    def __init__(self, **answer: Any) -> None:
        self._answer = answer

    def job(self, name: str) -> dict[str, Any]:
        return self._answer


def test_what_an_agent_does_not_say_is_not_made_up() -> None:
    job = describe(Client(**PLAIN, roster=["web-1"]), "top")
    assert (job.key, job.roster, job.backfill, job.parts) == ("shop/top", ["web-1"], None, [])


def test_parts_say_what_may_be_backfilled_of_them_or_why_they_do_not() -> None:
    reach = {
        "instance": "i",
        "first_ms": 0,
        "until_ms": 10,
        "agents": [{"agent": "a", "name": "b", "through_ms": None}],
    }
    job = describe(Client(**PLAIN, parts=[{"part": 0, "backfill": reach}, {"part": 1, "trouble": "no answer"}]), "top")
    assert job.parts[0].backfill is not None and job.parts[0].backfill.agents[0].name == "b"
    assert job.parts[1] == Part(trouble="no answer")


@pytest.mark.parametrize("changed", [{"columns": None}, {"backfill": {"instance": "i"}}, {"parts": [7]}])
def test_an_incomplete_description_is_one_sentence(changed: dict[str, Any]) -> None:
    with pytest.raises(JobError, match="the agent's description of job 'top' is incomplete: "):
        describe(Client(**PLAIN | changed), "top")


def test_a_job_that_brings_functions_along_in_any_of_its_versions_is_for_verify_alone() -> None:
    own = [{"name": "section", "key": "k", "source": "def section(path): ..."}]
    plain = {"version": 1, "what": "publish", "query": "", "made_ms": 1}
    for changed in ({"functions": own}, {"versions": [{**plain, "functions": own}, {**plain, "version": 2}]}):
        said = (
            r"^shop/top brings functions of its own along \(section\): on Spark only `elf verify` runs such functions$"
        )
        with pytest.raises(JobError, match=said):
            describe(Client(**PLAIN, **changed), "top")
        job = describe(Client(**PLAIN, **changed), "top", with_functions=True)
        (found,) = [*job.functions, *(each for version in job.versions for each in version.functions)]
        assert (found.name, found.key, found.source) == ("section", "k", "def section(path): ...")
    assert describe(Client(**PLAIN, functions=[], versions=[plain]), "top").versions[0].functions == []
