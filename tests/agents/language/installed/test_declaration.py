"""What a declared function answers is NULL, of its type, or an error; the null rule is Spark's unless it is strict."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elf
from elf.agents.language.installed.declaration import Aggregate, conform
from elf.agents.language.types import SqlType

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.dates(), st.datetimes(), st.binary(),
    st.datetimes(timezones=st.just(datetime.UTC)), st.lists(st.integers()),
    st.sampled_from([np.float32(0.5), np.int64(7), np.bool_(True), np.str_("x")]),
)  # fmt: skip


@given(VALUES, st.sampled_from(SqlType))
def test_what_conforms_is_held_by_polars_unchanged_and_conforms_again(value: Any, kind: SqlType) -> None:
    try:
        answer = conform(value, kind)
    except (TypeError, UnicodeEncodeError) as error:
        assert value is not None
        assert isinstance(error, UnicodeEncodeError) or kind.value in str(error)
        return
    assert (answer is None) == (value is None)
    assert repr(pl.Series([answer], dtype=kind.dtype, strict=True).item()) == repr(answer)
    assert repr(conform(answer, kind)) == repr(answer)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(True, "INT"), (1, "BOOLEAN"), (1.0, "BIGINT"), (2**31, "INT"), (-(2**63) - 1, "BIGINT"), (1, "STRING"),
     (True, "DOUBLE"), (datetime.datetime(2026, 1, 1), "DATE"), (datetime.date(2026, 1, 1), "TIMESTAMP")],
)  # fmt: skip
def test_what_is_nearly_right_is_refused_with_what_it_is(value: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"it returned .*, which is no {kind}$"):
        elf.scalar(args=["INT"], returns=kind)(lambda _: value)(0)


def test_none_is_handed_over_unless_a_function_is_strict() -> None:
    def said(*values: Any) -> str:
        return repr(values)

    assert elf.scalar(args=["INT", "STRING"], returns="STRING")(said)(None, "a") == "(None, 'a')"
    strict = elf.scalar(args=["INT", "STRING"], returns="STRING", strict=True)(said)
    assert strict(1, None) is None and strict(1, "a") == "(1, 'a')"


@given(st.lists(st.tuples(st.none() | st.integers(0, 9), st.none() | st.integers(0, 9)), min_size=1))
def test_a_strict_vectorised_function_sees_no_nulls(rows: list[tuple[int | None, int | None]]) -> None:
    def add(left: pl.Series, right: pl.Series) -> pl.Series:
        assert left.null_count() + right.null_count() == 0
        return left + right

    made = elf.vectorised(args=[SqlType.BIGINT] * 2, returns=SqlType.BIGINT, strict=True)(add)
    columns = [pl.Series([row[at] for row in rows], dtype=pl.Int64) for at in (0, 1)]
    expected = [None if one is None or other is None else one + other for one, other in rows]
    assert made(*columns).to_list() == expected


@pytest.mark.parametrize(
    ("answer", "said"),
    [([1, 2], "it returned list, not a Polars Series"), (pl.Series([1]), "it returned 1 rows for 2"),
     (pl.Series(["a", "b"]), "it returned a column of String, not of BIGINT"),
     (pl.Series([1, 2]).cast(pl.Decimal(9, 2)), "it returned a column of Decimal.*, not of BIGINT"),
     (pl.Series([0.5, 1.0]), "it returned a column of Float64, not of BIGINT")],
)  # fmt: skip
def test_a_vectorised_function_returns_a_column_of_its_type_and_length(answer: Any, said: str) -> None:
    made = elf.vectorised(args=["INT"], returns="BIGINT")(lambda _: answer)
    with pytest.raises(TypeError, match=said):
        made(pl.Series([1, 2], dtype=pl.Int32))


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_times_of_other_units_and_zones_are_taken_to_utc(unit: Any, zone: str | None) -> None:
    def shown(column: pl.Series) -> pl.Series:
        column = column.cast(pl.Datetime(unit))
        return column if zone is None else column.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)

    given = pl.Series([datetime.datetime(2026, 7, 1, 2, 30), None], dtype=SqlType.TIMESTAMP.dtype)
    answer = elf.vectorised(args=["TIMESTAMP"], returns="TIMESTAMP")(shown)(given)
    assert answer.equals(given) and answer.dtype == SqlType.TIMESTAMP.dtype


def test_whole_numbers_of_other_widths_are_taken_if_they_fit() -> None:
    made = elf.vectorised(args=["BIGINT"], returns="INT")(lambda column: column)
    assert made(pl.Series([1, None])).to_list() == [1, None]
    assert made(pl.Series([1, None])).dtype == pl.Int32
    with pytest.raises(pl.exceptions.InvalidOperationError):
        made(pl.Series([2**40]))


class Longest:
    def create(self, values: list[str]) -> str:
        return max(values)

    def merge(self, left: str, right: str) -> str:
        return max(left, right)

    def finish(self, state: str) -> int:
        return len(state)


def test_an_aggregate_is_its_class_and_its_types() -> None:
    made = elf.aggregate(args=["STRING"], returns="INT")(Longest)
    again = elf.aggregate(args=["STRING"], returns="INT")(Longest)
    other = elf.aggregate(args=["STRING"], returns="STRING")(Longest)
    assert isinstance(made, Aggregate) and made.output == pl.Int32
    assert made == again and hash(made) == hash(again) and made != other
    assert made.finish(made.merge(made.create(["a"]), made.create(["bc"]))) == 2
    with pytest.raises(TypeError, match="no STRING"):
        other.finish("abc")


@pytest.mark.parametrize(
    ("declare", "said"),
    [(lambda: elf.scalar(args=[], returns="INT"), "args is a list of 1 to 32 SQL types"),
     (lambda: elf.scalar(args="INT", returns="INT"), "args is a list"),
     (lambda: elf.vectorised(args=["INT"], returns="DECIMAL"), "unknown column type 'DECIMAL'"),
     (lambda: elf.aggregate(args=["INT", "INT"], returns="INT"), "an aggregate takes one argument, not 2"),
     (lambda: elf.aggregate(args=["INT"], returns="INT")(dict), "dict has no method create")],
)  # fmt: skip
def test_declarations_that_mean_nothing_are_refused(declare: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        declare()
