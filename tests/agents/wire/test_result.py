"""Values that JSON has none for: text in results, in frames again what they were, never NULL, never an error."""

from __future__ import annotations

import math
from datetime import datetime

import msgspec
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.completeness.label import Label
from elf.agents.language.json_rows import json_rows
from elf.agents.master.results import completeness_of, result_of
from elf.agents.wire.result import Column, Completeness, Result
from tests.agents.plans import plan_of

LABEL = msgspec.convert({"status": "final", "expected": 1, "reported": 1, "missing": []}, Completeness)
#: SQL type -> its Polars type, what holds its values physically, and values: all that there are, of times and days.
KINDS: dict[str, tuple[pl.DataType, pl.DataType, st.SearchStrategy[object]]] = {
    "BOOLEAN": (pl.Boolean(), pl.Boolean(), st.booleans()),
    "INT": (pl.Int32(), pl.Int32(), st.integers(-(2**31), 2**31 - 1)),
    "BIGINT": (pl.Int64(), pl.Int64(), st.integers(-(2**63), 2**63 - 1)),
    "DOUBLE": (pl.Float64(), pl.Float64(), st.floats()),
    "STRING": (pl.String(), pl.String(), st.text()),
    "TIMESTAMP": (pl.Datetime("us"), pl.Int64(), st.integers(-(2**63), 2**63 - 1)),
    "DATE": (pl.Date(), pl.Int32(), st.integers(-(2**31), 2**31 - 1)),
}


@settings(max_examples=200)
@given(st.data(), st.sampled_from(list(KINDS)), st.booleans())
def test_values_of_every_type_come_back_from_json(data: st.DataObject, kind: str, in_arrays: bool) -> None:
    dtype, physical, values = KINDS[kind]
    if in_arrays:
        dtype, physical, values = pl.List(dtype), pl.List(physical), st.lists(values, max_size=3)
    drawn = data.draw(st.lists(values | st.none(), min_size=1, max_size=5))
    column = pl.Series("x", drawn, physical).cast(dtype)
    rows = msgspec.json.decode(msgspec.json.encode(json_rows(column.to_frame())))
    back = Result("shop/top", [Column("x", f"ARRAY<{kind}>" if in_arrays else kind)], rows, LABEL).to_polars()["x"]
    assert back.dtype == dtype
    assert repr(back.to_physical().to_list()) == repr(column.to_physical().to_list())


def test_what_is_no_number_stays_what_it_is() -> None:
    frame = pl.DataFrame({"n": [1], "b": [True], "s": ["NaN"], "many": [[1, 2]], "x": [0.5]})
    assert json_rows(frame) == [{"n": 1, "b": True, "s": "NaN", "many": [1, 2], "x": 0.5}]


def test_times_have_microseconds_and_days_none() -> None:
    at = datetime(2026, 11, 25, 8, 19, 16)
    frame = pl.DataFrame({"at": [at, None], "day": [at.date(), None], "ats": [[at], []]})
    assert json_rows(frame) == [
        {"at": "2026-11-25T08:19:16.000000Z", "day": "2026-11-25", "ats": ["2026-11-25T08:19:16.000000Z"]},
        {"at": None, "day": None, "ats": []},
    ]


def test_years_that_python_does_not_have_are_told_as_others() -> None:
    frame = pl.DataFrame({"at": [1_704_067_200_000_000_000, -(2**63)], "day": [2**31 - 1, -719_163]})
    rows = json_rows(
        frame.with_columns(pl.col("at").cast(pl.Datetime("us")), pl.col("day").cast(pl.Int32).cast(pl.Date))
    )
    assert rows == [
        {"at": "+55969-09-28T00:00:00.000000Z", "day": "+5881580-07-11"},
        {"at": "-290308-12-21T19:59:05.224192Z", "day": "0000-12-31"},
    ]


def test_frames_have_the_numbers() -> None:
    columns = [Column("s", "STRING"), Column("x", "DOUBLE"), Column("xs", "ARRAY<DOUBLE>")]
    rows = [{"s": "NaN", "x": "-Infinity", "xs": ["NaN", 1.5]}, {"s": None, "x": None, "xs": []}]
    frame = Result("shop/top", columns, rows, LABEL).to_polars()
    assert frame["s"].to_list() == ["NaN", None]
    assert frame["x"].to_list() == [-math.inf, None]
    assert math.isnan(frame["xs"][0][0]) and frame["xs"][0][1] == 1.5


def test_an_agent_says_what_a_number_is() -> None:
    plan = plan_of("SELECT product, exp(1000.0D * count(*)) AS x FROM clicks GROUP BY product")
    rows = pl.DataFrame({"product": ["a", "b", "c"], "x": [math.inf, math.nan, None]})
    told = result_of(plan, None, rows, 1_000, completeness_of(plan, None, Label(0, 1, 1), 0, 1_000, str))
    assert [row["x"] for row in told.rows] == ["Infinity", "NaN", None]
