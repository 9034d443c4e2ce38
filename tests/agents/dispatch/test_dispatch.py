"""What becomes of a request that our own code fails on: an answer that says so, for silence looks like a dead agent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from elf.agents.dispatch.dispatch import Answers
from elf.agents.errors import ElfError, MistakeError, UnavailableError, UnknownJobError
from elf.agents.wire.agents import ListJobs
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.overlay.ids import Contact


class Failing:
    """Answers nothing."""

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure

    async def answer(self, request: Any, here: bool) -> Any:
        raise self.failure


@pytest.mark.parametrize(
    ("failure", "kind", "says"),
    [
        (pl.exceptions.PanicException("a year of mine"), MistakeError, "PanicException, see its log"),
        (KeyError("a key of mine"), MistakeError, "KeyError, see its log"),
        (OSError("no space left"), UnavailableError, "cannot write: no space left"),
        (UnknownJobError("shop/tip"), UnknownJobError, "shop/tip"),
    ],
)
async def test_every_failure_is_an_answer(failure: BaseException, kind: type[ElfError], says: str) -> None:
    contact = Contact(bytes(20), "127.0.0.1", 4250)
    nobody: Any = SimpleNamespace(contact=contact)
    of_agent: Any = Failing(failure)
    answer = await Answers(nobody, nobody, nobody, nobody, nobody, of_agent, nobody).answer(
        contact.id, encode(ListJobs())
    )
    assert isinstance(answer, bytes)
    with pytest.raises(ElfError, match=says) as caught:
        value_of(answer)
    assert type(caught.value) is kind and "of mine" not in str(caught.value)
