"""First and last by a key: what counts, and how ties end."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from elf.cbt.aggregates import aggregate
from tests.cbt.aggregates.reference import answers, made, raw, single

DTYPE = pl.Struct({"by": pl.Int64(), "value": pl.String()})


@pytest.mark.parametrize(
    ("rows", "first", "last"),
    [
        ([(1, "a"), (2, "b")], "a", "b"),
        ([(1, "b"), (1, "a")], "a", "b"),  # Ties go by value.
        ([(1, None), (1, "a"), (2, None)], None, None),  # A null is a value, the least.
        ([(1, None), (1, "a")], None, "a"),
        ([(None, "a"), (3, "z")], "z", "z"),  # Without a key a row does not count.
        ([(None, "a")], None, None),
    ],
)
def test_first_and_last(rows: list[tuple[Any, Any]], first: Any, last: Any) -> None:
    values = [("k", {"by": by, "value": value}) for by, value in rows]
    for kind, meant in (("first_by", first), ("last_by", last)):
        schema = single(aggregate(kind, DTYPE))
        assert answers(made(schema, raw(values, DTYPE)), schema) == {"k": meant}


@pytest.mark.parametrize("dtype", [pl.Int64(), pl.Struct({"value": pl.Int64(), "by": pl.Int64()})])
def test_the_input_is_a_struct_of_key_and_value(dtype: pl.DataType) -> None:
    with pytest.raises(ValueError, match="struct of by and value"):
        aggregate("first_by", dtype)


def test_values_that_cannot_be_kept() -> None:
    with pytest.raises(ValueError, match="cannot be kept"):
        aggregate("max", pl.List(pl.Int64()))
    with pytest.raises(ValueError, match="cannot be kept"):
        aggregate("last_by", pl.Struct({"by": pl.Int64(), "value": pl.List(pl.Int64())}))
    with pytest.raises(ValueError, match="no aggregate 'median'"):
        aggregate("median")
