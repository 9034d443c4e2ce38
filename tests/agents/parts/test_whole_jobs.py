"""What is said to a whole job goes to as many masters as it has, whatever another agent says that it has."""

from __future__ import annotations

from typing import Any, cast

import pytest

from agents.changing.requests import Amend
from agents.errors import UnavailableError, UnknownJobError
from agents.group.copies import Copies
from agents.masters.masters import Masters
from agents.masters.results import Json
from agents.parts.stopping import Stopping
from agents.parts.whole_jobs import WholeJobs


@pytest.mark.parametrize("trees", [0, 65, 1 << 62, "many", None], ids=repr)
async def test_no_agent_makes_another_ask_masters_without_end(trees: object) -> None:
    asked: list[str] = []
    known = True

    async def ask(key: str, request: object, timeout_ms: int) -> tuple[Any, list[str]]:
        asked.append(key)
        if not known:
            raise UnknownJobError(key, ())
        return {"trees": trees}, []

    async def rows() -> list[Json]:
        return [{"creator": "shop", "name": "words", "part": 1, "trees": trees}]

    async def amend(key: str, request: Amend) -> Json:
        pytest.fail("nobody else is asked for anything")

    jobs, stopping = WholeJobs(ask, cast(Copies, None), cast(Masters, None), rows), Stopping(ask, amend, rows)
    with pytest.raises(UnavailableError, match="there are 1 to 64"):
        await jobs.described("shop", "words")
    with pytest.raises(UnavailableError, match="there are 1 to 64"):
        await stopping.stop("shop", "words")
    with pytest.raises(UnavailableError, match="there are 1 to 64"):
        await stopping.resume("shop", "words")
    known = False
    with pytest.raises(UnavailableError, match="there are 1 to 64"):
        await stopping.stop("shop", "words")
    assert asked == ["shop/words"] * 4
