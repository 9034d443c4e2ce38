"""What a master answers while it begins."""

from __future__ import annotations

from typing import Any

from elf.agents.master.results import Result, Span
from elf.agents.results.answerer import Answerer
from elf.agents.wire.questions import Query


class Beginning(Answerer):
    """Answers for one job, whose first commit comes while the first question is answered."""

    through_ms: int | None = None
    name_of = str

    @property
    def job(self) -> Any:
        return None

    @property
    def windows(self) -> Any:
        return self

    def resolve(self, window: str) -> Span:
        return Span(-1_000, 0) if self.through_ms is None else Span(self.through_ms - 1_000, self.through_ms)

    def result(self, span: Span, *_: object) -> Result:
        self.through_ms = 60_000
        return Result({"start_ms": span.start_ms}, self.through_ms, [], [], {"status": "final"}, 1)

    async def follow(self, request: Any, wait_ms: int) -> Any:
        return None

    def rendered(self, result: Result) -> Any:
        return result.window


async def test_the_latest_window_is_none_of_before_the_job_when_its_first_commit_comes_just_then() -> None:
    assert await Beginning().query(Query(b"a" * 20, "latest")) == {"start_ms": 59_000}
