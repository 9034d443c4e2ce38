"""Who follows a job until it has converged is told so, or that it never will."""

import msgspec
import pytest

from elf.agents.errors import JobError
from elf.agents.wire.result import Completeness, Result
from elf.client.until import is_reached


def test_a_result_says_whether_it_is_the_last_one() -> None:
    result = Result(job="me/job", columns=[], rows=[], completeness=Completeness(2, 2))
    assert not is_reached(result, None)
    for converged in (True, False):
        assert is_reached(msgspec.structs.replace(result, converged=converged), "converged") is converged
    with pytest.raises(JobError, match="me/job does not read its last result"):
        is_reached(result, "converged")
