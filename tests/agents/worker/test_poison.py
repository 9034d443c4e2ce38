"""A line or event on which our own code fails is set aside and named; all others are counted."""

from collections.abc import Mapping, Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.language.types import SqlType
from elf.agents.sources.counters import REJECT_BYTES_MAX, Counters, Oddities, Parsed
from elf.agents.sources.format import make_format
from elf.agents.sources.kept import Kept
from elf.agents.sources.lines import LINE_BYTES_MAX
from elf.agents.worker.poison import insert_whatever, keep_whatever, parse_whatever
from elf.agents.worker.worker import Worker
from tests.agents.plans import COLUMNS, events, plan_of


class Fragile:
    """A JSON format that fails on any lines with the word poison in them."""

    name = "json"
    columns = None
    carrier = None

    def __init__(self, *steps: str) -> None:
        self.steps = steps

    def keep(self, chunk: bytes, literals: Sequence[Sequence[str]] = (), carried: Sequence[bytes] = ()) -> Kept:
        if "keep" in self.steps and b"poison" in chunk:
            raise pl.exceptions.ComputeError("poisoned")
        return make_format("json").keep(chunk, literals)

    def parse(self, lines: Kept, wanted: Mapping[str, SqlType]) -> Parsed:
        if "parse" in self.steps and b"poison" in lines.data + b"".join(lines.huge):
            raise pl.exceptions.ComputeError("poisoned")
        return make_format("json").parse(lines, wanted)


GOOD, POISON = b'{"ts":1767225600000,"product":"a","cents":1}', b'{"ts":1767225600000,"product":"poison"}'
HUGE = b"product poison" + b"x" * LINE_BYTES_MAX


@given(
    st.lists(st.sampled_from([GOOD, POISON, b"[]"]), max_size=20),
    st.booleans(),
    st.sampled_from([(), ("keep",), ("parse",), ("keep", "parse")]),
)
def test_only_the_poison_is_rejected(lines: list[bytes], newline: bool, steps: tuple[str, ...]) -> None:
    data = b"\n".join(lines) + (b"\n" if newline and lines else b"")
    parts = [
        part
        for kept in keep_whatever(Fragile(*steps), data, [["product"]])
        for part in parse_whatever(Fragile(*steps), kept, COLUMNS)
    ]
    # What the pre-filter fails on is kept; what it does not know it skips.
    poisoned, others = lines.count(POISON), lines.count(b"[]")
    rejected = poisoned if "parse" in steps else 0
    total = sum((part.counters for part in parts), Counters())
    if "keep" not in steps:
        assert total == Counters(len(lines), len(lines) - rejected - others, rejected, filtered=others)
    assert total.balanced and (total.read, total.rejected) == (len(lines), rejected)
    assert [reason for part in parts for _, reason in part.rejects] == ["failure:ComputeError"] * rejected
    products = pl.concat(part.events for part in parts)["product"].to_list()
    assert (products.count("a"), products.count("poison")) == (lines.count(GOOD), poisoned - rejected)


def test_a_huge_line_of_poison_is_rejected_alone() -> None:
    data = b"\n".join([GOOD, HUGE, GOOD, HUGE, b"[]", b"[]"])
    (kept,) = keep_whatever(Fragile("parse"), data, [["product"]])
    parts = list(parse_whatever(Fragile("parse"), kept, COLUMNS))
    assert sum((part.counters for part in parts), Counters()) == Counters(read=6, parsed=2, rejected=2, filtered=2)
    assert sum((part.oddities for part in parts), Oddities()) == Oddities(truncated=2)
    assert [(len(line), reason) for part in parts for line, reason in part.rejects] == [
        (REJECT_BYTES_MAX, "failure:ComputeError")
    ] * 2


def test_an_event_a_plan_fails_on_is_left_out_and_labelled(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of()
    worker, mapped = Worker(plan, "w1"), type(plan).mapped

    def fragile(self: object, frame: pl.DataFrame) -> pl.DataFrame:
        if (frame["cents"] == 13).any():
            raise pl.exceptions.ComputeError("poisoned")
        return mapped(plan, frame)

    monkeypatch.setattr(type(plan), "mapped", fragile)
    insert_whatever(worker, events([(0, "a", 1), (4_000, "a", 13), (5_000, "b", 2)]))
    assert worker.progress.gaps == ((2, 2),)
    assert sum(1 for snapshot in worker.seal(20_000) if snapshot.payload) == 2
