"""The agent is asked for the job and its windows; what it says is no job is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from elf.agents.errors import JobError
from elf.demo.clicks import START_MS
from elf.offline.verify.run import run_verify
from tests.elf.offline.verify.master import COLUMNS, QUERY, Result, result_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.elf.offline.conftest import Shop


class Client:
    """An agent's answers, by window."""

    def __init__(self, description: dict[str, Any], results: dict[str, Result]) -> None:
        self._description, self._results = description, results

    def job(self, name: str) -> dict[str, Any]:
        return self._description

    def query(self, name: str, *, window: str, limit: int | None = None) -> Result:
        return self._results[window]


def test_run_verify_asks_the_agent(spark: SparkSession, shop: Shop) -> None:
    definition = {"source": "clicks", "query": QUERY, "columns": COLUMNS}
    description = {"creator": "shop", "name": "top", "master": "127.0.0.1:1", **definition}
    report = run_verify(
        Client(description, {"latest": result_of(shop.events, START_MS + 30_000)}), "top", ["latest"], shop.folders
    )
    assert report.agrees and report.job == "shop/top"
    with pytest.raises(JobError, match="description of job 'top' is incomplete"):
        run_verify(Client({"name": "top"}, {}), "top")
