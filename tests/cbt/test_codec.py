"""PAO blocks round-trip; any other bytes raise the one error."""

import collections
import datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from elf.cbt import PaoDecodeError, PaoSchema, decode, encode
from elf.cbt.aggregates import aggregate
from elf.cbt.aggregates.counts import Count


class _Raw(Count):
    """A count whose state is bytes."""

    def states(self, name: str) -> dict[str, pl.DataType]:
        return {f"{name}_raw": pl.Binary()}


SCHEMA = PaoSchema(
    keys=(("k0", pl.String()), ("k1", pl.Int32()), ("k2", pl.Boolean()), ("k3", pl.Date()), ("k4", pl.Datetime("us"))),
    aggregates=(
        ("a0", aggregate("count")),
        ("a1", aggregate("avg", pl.Float64())),
        ("a2", aggregate("max", pl.String())),
    ),
)

i64 = st.integers(-(2**63), 2**63 - 1)
text = st.none() | st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
row = st.tuples(
    i64,
    text,
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.booleans(),
    st.none() | st.dates(),
    st.none() | st.datetimes(min_value=datetime.datetime(1700, 1, 1), max_value=datetime.datetime(2200, 1, 1)),
    i64,
    st.floats(allow_nan=False),
    st.floats(allow_nan=False),
    i64,
    st.booleans(),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20),
)


@given(st.lists(row, max_size=30))
def test_round_trip(rows: list[tuple[object, ...]]) -> None:
    frame = pl.DataFrame(rows, schema=SCHEMA.columns, orient="row")
    assert_frame_equal(decode(encode(frame), SCHEMA), frame)


def test_a_block_of_a_release_that_told_fewer_rows_apart_is_read() -> None:
    def schema(*fields: str) -> PaoSchema:
        dtype = pl.Struct({"by": pl.Int64(), **dict.fromkeys(fields, pl.String())})
        return PaoSchema(keys=(), aggregates=(("a0", aggregate("last_by", dtype)), ("a1", aggregate("count"))))

    old, new = schema("value"), schema("tie0", "value")
    rows = pl.DataFrame([(7, True, 5, True, "x", 2)], schema=old.columns, orient="row")
    read = decode(encode(rows), new)
    assert list(read.columns) == list(new.columns) and read.select(rows.columns).equals(rows)
    later = pl.DataFrame([(7, True, 5, True, "a", True, "b", 1)], schema=new.columns, orient="row")
    assert new.merge([read, later]).select("a0_value", "a1_n").rows() == [("b", 3)]
    with pytest.raises(PaoDecodeError, match="are not the job's"):
        decode(encode(later), old)
    with pytest.raises(PaoDecodeError, match="are not the job's"):
        decode(encode(rows.drop("a1_n")), new)


@given(st.binary(max_size=200))
def test_any_bytes_raise_the_one_error(data: bytes) -> None:
    with pytest.raises(PaoDecodeError):
        decode(data, SCHEMA)


@settings(max_examples=300)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_flipped_byte_raises_or_decodes_to_the_same_shape(place: int, value: int) -> None:
    frame = pl.DataFrame(
        [(1, "é", 2, True, None, None, 3, 0.5, 0.0, 4, True, "z")] * 9, schema=SCHEMA.columns, orient="row"
    )
    data = bytearray(encode(frame))
    data[place % len(data)] = value
    try:
        decoded = decode(bytes(data), SCHEMA)
    except PaoDecodeError:
        return
    assert decoded.schema == frame.schema


def test_a_block_of_another_job_is_refused() -> None:
    other = PaoSchema(keys=(("k0", pl.String()),), aggregates=())
    with pytest.raises(PaoDecodeError, match="columns"):
        decode(encode(other.empty()), SCHEMA)


@pytest.mark.parametrize(("interval", "count", "column"), [(1, None, "a0_n"), (None, 1, "interval")])
def test_a_state_or_interval_that_is_null_is_refused(interval: int | None, count: int | None, column: str) -> None:
    frame = pl.DataFrame(
        [(interval, "é", 2, True, None, None, count, 0.5, 0.0, 4, True, "z")], schema=SCHEMA.columns, orient="row"
    )
    with pytest.raises(PaoDecodeError, match=column):
        decode(encode(frame), SCHEMA)


@pytest.mark.parametrize("rows", [1, 1_024, 1_025, 5_000])
def test_few_and_many_rows_travel_and_merge_alike(rows: int) -> None:
    schema = PaoSchema(keys=(("k0", pl.String()),), aggregates=(("a0", aggregate("count")),))
    keys = [f"é{number}" * (number % 7) for number in range(rows)]
    frame = pl.DataFrame({"interval": [1] * rows, "k0": keys, "a0_n": [1] * rows}, schema=schema.columns)
    assert_frame_equal(decode(encode(frame), schema), frame)
    merged = schema.merge([frame, frame])
    counted = collections.Counter(keys)
    assert dict(merged.select("k0", "a0_n").iter_rows()) == {key: 2 * count for key, count in counted.items()}


def test_binary_states_travel() -> None:
    schema = PaoSchema(keys=(), aggregates=(("a0", _Raw(pl.Int64())),))
    frame = pl.DataFrame({"interval": [1, 2, 3], "a0_raw": [b"", b"\xff\0", b"abc"]}, schema=schema.columns)
    assert_frame_equal(decode(encode(frame), schema), frame)
