"""What jobs over other jobs are refused when these are looked up."""

import msgspec
import pytest

from elf.agents.errors import JobSpecError
from elf.agents.jobs.definition import Definition
from elf.agents.language.joins import Joined, parse_joins
from elf.agents.results.joined_jobs import Looked, with_uses

QUERY = "SELECT a.n FROM job('me/plain') a JOIN job('me/graph') g ON a.n = g.n"


def looked(size_ms: int, *, reads_last_result: bool = False) -> Looked:
    told = {"source": "clicks", "interval_ms": 1_000, "window": {"size_ms": size_ms, "slide_ms": 1_000}}
    output = [{"name": "n", "type": "BIGINT"}]
    return msgspec.convert({**told, "output": output, "reads_last_result": reads_last_result}, Looked)


def test_a_job_that_reads_its_last_result_is_read_by_its_own_windows_only() -> None:
    definition = Definition(name="job", creator="me", source="", query="", joined=Joined(query=QUERY))
    reads = parse_joins(QUERY).reads
    graph = looked(4_000, reads_last_result=True)
    with pytest.raises(JobSpecError, match="me/graph reads its last result, so it answers windows of 4000 ms"):
        with_uses(definition, reads, [looked(2_000), graph])
    for found in ([looked(4_000), graph], [looked(2_000), looked(4_000)]):
        made = with_uses(definition, reads, found)
        assert made.joined is not None and len(made.joined.uses) == 2
