"""Numbers that JSON has none for: text in results, numbers again in frames, never NULL."""

from __future__ import annotations

import math
from datetime import datetime

import msgspec
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.completeness.label import Label
from elf.agents.master.results import completeness_of, result_of
from elf.agents.wire.result import Column, Completeness, Result, json_value, read_number
from tests.agents.plans import plan_of


@given(st.floats() | st.lists(st.floats() | st.none()) | st.none())
def test_numbers_come_back_from_json(value: object) -> None:
    told = msgspec.json.decode(msgspec.json.encode(json_value(value)))
    assert repr(read_number(told)) == repr(value)


def test_what_is_no_number_stays_what_it_is() -> None:
    assert [json_value(each) for each in (1, True, "NaN", [1, "x"])] == [1, True, "NaN", [1, "x"]]


def test_times_have_microseconds_and_days_none() -> None:
    at = datetime(2026, 11, 25, 8, 19, 16)
    assert json_value([at, at.date()]) == ["2026-11-25T08:19:16.000000Z", "2026-11-25"]


def test_frames_have_the_numbers() -> None:
    columns = [Column("s", "STRING"), Column("x", "DOUBLE"), Column("xs", "ARRAY<DOUBLE>")]
    rows = [{"s": "NaN", "x": "-Infinity", "xs": ["NaN", 1.5]}, {"s": None, "x": None, "xs": []}]
    label = msgspec.convert({"status": "final", "expected": 1, "reported": 1, "missing": []}, Completeness)
    frame = Result("shop/top", columns, rows, label).to_polars()
    assert frame["s"].to_list() == ["NaN", None]
    assert frame["x"].to_list() == [-math.inf, None]
    assert math.isnan(frame["xs"][0][0]) and frame["xs"][0][1] == 1.5


def test_an_agent_says_what_a_number_is() -> None:
    plan = plan_of("SELECT product, exp(1000.0D * count(*)) AS x FROM clicks GROUP BY product")
    rows = pl.DataFrame({"product": ["a", "b", "c"], "x": [math.inf, math.nan, None]})
    told = result_of(plan, None, rows, 1_000, completeness_of(plan, None, Label(0, 1, 1), 0, 1_000, str))
    assert [row["x"] for row in told.rows] == ["Infinity", "NaN", None]
