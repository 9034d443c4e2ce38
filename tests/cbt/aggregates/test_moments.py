"""Variances of numbers that are far from zero, and of very many parts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from elf.cbt.aggregates import aggregate
from tests.cbt.aggregates.reference import answers, made, merged, raw, single


@pytest.mark.parametrize("offset", [0.0, 1e6, -1e9])
@pytest.mark.parametrize("kind", ["var_pop", "stddev_samp"])
def test_spread_far_from_zero(kind: str, offset: float) -> None:
    values = np.random.default_rng(7).integers(0, 1_000, 2_000).astype(float)
    schema = single(aggregate(kind, pl.Float64()))
    parts = [
        made(schema, raw([("k", value + offset) for value in part], pl.Float64())) for part in values.reshape(-1, 8)
    ]
    meant = values.var() if kind == "var_pop" else values.std(ddof=1)
    assert answers(merged(parts, schema), schema)["k"] == pytest.approx(meant, rel=1e-9)
    whole = made(schema, raw([("k", value + offset) for value in values], pl.Float64()))
    assert answers(whole, schema)["k"] == pytest.approx(meant, rel=1e-9)


def test_one_value_has_no_sample_variance() -> None:
    for kind, meant in (("var_pop", 0.0), ("stddev_pop", 0.0), ("var_samp", None), ("stddev_samp", None)):
        schema = single(aggregate(kind, pl.Float64()))
        assert answers(made(schema, raw([("k", 3.0), ("k", None)], pl.Float64())), schema) == {"k": meant}
        assert answers(made(schema, raw([("k", None)], pl.Float64())), schema) == {"k": None}
