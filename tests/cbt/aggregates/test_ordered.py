"""First and last by a key: what counts, and how ties end."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt.aggregates import aggregate
from tests.cbt.aggregates.reference import answers, made, merged, raw, single

DTYPE = pl.Struct({"by": pl.Int64(), "value": pl.String()})
small = st.none() | st.integers(0, 2)


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


@given(
    st.lists(st.fixed_dictionaries({"by": st.integers(0, 1), "a": st.none() | st.sampled_from("xyz"), "b": small})),
    st.sampled_from(["first_by", "last_by"]),
)
def test_aggregates_with_the_same_fields_show_values_of_one_row(rows: list[dict[str, Any]], kind: str) -> None:
    shown: list[Any] = []
    for own in "ab":
        names = {name: "value" if name == own else f"tie_{name}" for name in "ab"}
        dtype = pl.Struct({"by": pl.Int64(), names["a"]: pl.String(), names["b"]: pl.Int64()})
        values = [("k", {names.get(name, name): value for name, value in row.items()}) for row in rows]
        schema = single(aggregate(kind, dtype))
        parts = [made(schema, raw(part, dtype)) for part in (values[::2], values[1::2])]
        shown.append(answers(merged(parts, schema), schema).get("k"))
    assert not rows or tuple(shown) in {(row["a"], row["b"]) for row in rows}


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
