"""PAOs in Python: registered by name, bytes to everyone else."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from cbt.aggregates import aggregate, register
from cbt.aggregates.user import registered
from tests.cbt.aggregates.reference import answers, made, merged, raw, single


class Product:
    """The product modulo a prime."""

    output = pl.Int64()

    def create(self, values: list[Any]) -> Any:
        product = 1
        for value in values:
            product = self.merge(product, value)
        return product

    def merge(self, left: Any, right: Any) -> Any:
        return left * right % 1_000_003

    def finish(self, state: Any) -> Any:
        return state or None


def test_a_registered_pao() -> None:
    product = Product()
    register("product", product)
    register("product", product)
    assert "product" in registered()
    schema = single(aggregate("user", pl.Int64(), pao="product"))
    parts = [[("x", 2), ("x", 5)], [("x", None), ("y", None)], [("x", 7), ("z", 1_000_003)]]
    paos = merged([made(schema, raw(part, pl.Int64())) for part in parts], schema)
    assert answers(paos, schema) == {"x": 70, "y": None, "z": None}
    with pytest.raises(ValueError, match="already"):
        register("product", Product())


def test_an_unknown_pao_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match="no PAO named 'sum'"):
        aggregate("user", pl.Int64(), pao="sum")
