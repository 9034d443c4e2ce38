"""PAOs placed in an order of keys merge to what they do with their keys, on disk and back."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt.aggregates import AggregateOverflow, aggregate
from elf.cbt.codec import PaoDecodeError, encode
from elf.cbt.folding import creator
from elf.cbt.placed import MARK, Placed, Placing, decode_placed, encode_placed, is_placeable, order_of, place, to_frame
from elf.cbt.schema import INTERVAL, PaoSchema

KEYS = (("text", pl.String()), ("number", pl.Float64()))
SCHEMA = PaoSchema(
    KEYS,
    (
        ("a0", aggregate("count")),
        ("a1", aggregate("min", pl.Float64())),
        ("a2", aggregate("max", pl.Int32())),
        ("a3", aggregate("var_samp", pl.Float64())),
        ("a4", aggregate("approx_count_distinct", pl.Int32())),
        ("a5", aggregate("max", pl.Boolean())),
        ("a6", aggregate("min", pl.Datetime("ms"))),
        ("a7", aggregate("max", pl.Date())),
    ),
)
INPUTS = {
    "a1": pl.col("x"),
    "a2": pl.col("n"),
    "a3": pl.col("x"),
    "a4": pl.col("n"),
    "a5": pl.col("n") > 0,
    "a6": pl.col("n").cast(pl.Int64).cast(pl.Datetime("ms")),
    "a7": pl.col("n").cast(pl.Date),
}
Row = tuple[str | None, float | None, float | None, int | None]

rows = st.tuples(
    st.sampled_from([None, "", "a", "b" * 13, "c" * 40]),
    st.sampled_from([None, 0.0, -0.0, -1.5, math.nan]),
    st.sampled_from([None, 0.0, -1.5, 2.0, math.inf, math.nan]),
    st.sampled_from([None, 1, -7, 300, 2**31 - 1]),
)
A, B, C = (("a", 1.0, None, None), (None, 1.0, None, None), ("a", None, None, None))
scripts = st.lists(st.lists(rows, min_size=1, max_size=6), min_size=1, max_size=8)


def pao(some: list[Row], schema: PaoSchema = SCHEMA) -> pl.DataFrame:
    """Rows of one interval as PAOs, one row per key and slot."""
    columns = {INTERVAL: pl.Int64(), "text": pl.String(), "number": pl.Float64(), "x": pl.Float64(), "n": pl.Int32()}
    raw = pl.DataFrame([(7, *row) for row in some], schema=columns, orient="row")
    inputs = {name: INPUTS[name] for name, _ in schema.aggregates if name in INPUTS}
    return schema.merge([creator(schema, inputs)(raw)])


def content(frame: pl.DataFrame, schema: PaoSchema = SCHEMA) -> pl.DataFrame:
    return frame.select(list(schema.columns)).sort(schema.addressing)


@given(script=scripts, on_disk=st.booleans())
def test_placed_paos_merge_to_what_they_do_with_their_keys(script: list[list[Row]], on_disk: bool) -> None:
    """Later ones have keys that the order did not have before, and lack some that it has."""
    frames = [pao(some) for some in script]
    order = order_of(frames[0], SCHEMA)
    parts: list[Placed] = []
    for frame in frames:
        found = place(frame, order, SCHEMA, 5)
        assert found is not None
        placed, grown = found
        assert grown.head(order.height).equals(order), "no row moves"
        assert placed.count == frame.height and placed.height == grown.height
        order = grown
        assert content(to_frame(placed, order, SCHEMA)).equals(content(SCHEMA.at_zero(frame)), null_equal=True)
        parts.append(decode_placed(encode_placed(placed), SCHEMA) if on_disk else placed)
    placing = Placing(SCHEMA, parts[0])
    for part in parts[1:]:
        placing.add(part)
    merged = placing.result()
    again = decode_placed(encode_placed(merged), SCHEMA)
    # One after the other, as placing does: floats depend on that.
    expected = SCHEMA.at_zero(frames[0])
    for frame in frames[1:]:
        expected = SCHEMA.merge([expected, SCHEMA.at_zero(frame)])
    for each in (merged, again):
        left, right = content(to_frame(each, order, SCHEMA)), content(expected)
        assert left.schema == right.schema and left.select(SCHEMA.addressing).equals(right.select(SCHEMA.addressing))
        for name, dtype in SCHEMA.states.items():
            if dtype == pl.Float64:
                assert np.allclose(left[name], right[name], equal_nan=True)
            else:
                assert left[name].equals(right[name])


@given(some=st.lists(rows, min_size=1, max_size=6), data=st.data())
def test_any_bytes_are_placed_paos_or_an_error_of_the_sender(some: list[Row], data: st.DataObject) -> None:
    frame = pao(some)
    found = place(frame.head(2), order_of(frame, SCHEMA), SCHEMA, 1)
    assert found is not None
    block = bytearray(encode_placed(found[0]))
    for _ in range(data.draw(st.integers(1, 3))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(block[: data.draw(st.integers(0, len(block)))] if data.draw(st.booleans()) else block)
    try:
        placed = decode_placed(damaged, SCHEMA)
    except PaoDecodeError:
        return
    assert len(placed.states) == len(SCHEMA.states) and all(array.size == placed.count for array in placed.states)
    assert placed.at is None or bool((placed.at < placed.height).all())


def test_blocks_of_another_kind_are_refused() -> None:
    frame = pao([("a", 1.0, 1.0, 1)])
    assert encode(frame)[:1] != MARK
    for block in (b"", MARK, encode(frame), MARK + encode(frame), MARK + b"\x04\x22\x4d\x18"):
        with pytest.raises(PaoDecodeError):
            decode_placed(block, SCHEMA)
    fewer = PaoSchema(KEYS, SCHEMA.aggregates[:3])
    found = place(frame, order_of(frame, SCHEMA), SCHEMA, 1)
    assert found is not None
    with pytest.raises(PaoDecodeError, match="states"):
        decode_placed(encode_placed(found[0]), fewer)


def test_rows_of_one_place_are_not_placed() -> None:
    frame = pao([("a", 1.0, 1.0, 1), ("b", 1.0, 1.0, 1)])
    twice = pl.concat([frame, frame])
    assert place(twice, order_of(frame, SCHEMA), SCHEMA, 1) is None
    assert place(frame, order_of(twice, SCHEMA), SCHEMA, 1) is None
    later = frame.with_columns(pl.lit(8, pl.Int64).alias(INTERVAL))
    other = order_of(pao([("c", 1.0, 1.0, 1)]), SCHEMA)
    assert place(pl.concat([frame, later]), other, SCHEMA, 1) is None, "new keys, each in two intervals"
    assert place(later, other, SCHEMA, 1) is not None


def test_text_and_what_has_no_keys_is_not_placed() -> None:
    assert is_placeable(SCHEMA)
    assert not is_placeable(PaoSchema((), (("a0", aggregate("max", pl.Int64())),)))
    assert not is_placeable(PaoSchema(KEYS, (("a0", aggregate("max", pl.String())),)))


def test_keys_alone_are_placed_although_there_are_no_states() -> None:
    schema = PaoSchema(KEYS, ())
    assert is_placeable(schema) and not schema.states
    frames = [SCHEMA.at_zero(pao(some)).select(list(schema.columns)).unique() for some in ([A, B], [A, C])]
    first = place(frames[0], order_of(frames[0], schema), schema, 1)
    assert first is not None
    second = place(frames[1], first[1], schema, 1)
    assert second is not None
    placing = Placing(schema, decode_placed(encode_placed(first[0]), schema))
    placing.add(decode_placed(encode_placed(second[0]), schema))
    merged = to_frame(placing.result(), second[1], schema)
    assert content(merged, schema).equals(content(schema.merge([schema.at_zero(each) for each in frames]), schema))


def test_a_sum_beyond_64_bits_is_refused() -> None:
    schema = PaoSchema(KEYS, SCHEMA.aggregates[:1])
    frame = pao([("a", 1.0, None, None)], schema).with_columns(pl.lit(2**63 - 1, pl.Int64).alias("a0_n"))
    found = place(frame, order_of(frame, schema), schema, 1)
    assert found is not None
    placing = Placing(schema, found[0])
    with pytest.raises(AggregateOverflow, match="a0_n"):
        placing.add(found[0])


def test_integers_are_kept_as_narrow_as_they_are_and_merge_as_wide_as_they_must() -> None:
    schema = PaoSchema(KEYS, SCHEMA.aggregates[:1])
    frame = pao([("a", 1.0, None, None)] * 100, schema)
    found = place(frame, order_of(frame, schema), schema, 1)
    assert found is not None
    placed = decode_placed(encode_placed(found[0]), schema)
    assert placed.states[0].dtype == np.int8
    placing = Placing(schema, placed)
    placing.add(placed)
    assert placing.result().states[0].tolist() == [200]
