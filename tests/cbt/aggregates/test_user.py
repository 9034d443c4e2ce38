"""PAOs in Python: registered by name, bytes to everyone else."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from elf.cbt.aggregates import UserPaoError, aggregate, register
from elf.cbt.aggregates.user import STATE_BYTES_MAX, registered
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


class Capricious:
    """The sum, which fails on some values, on some sums, and says "long" for a state that is too large."""

    output = pl.Int64()

    def create(self, values: list[Any]) -> Any:
        if 13 in values:
            raise ValueError("an unlucky number")
        return "x" * (STATE_BYTES_MAX + 1) if 99 in values else sum(values)

    def merge(self, left: Any, right: Any) -> Any:
        if left + right == 13:
            raise ValueError("an unlucky sum")
        return left + right

    def finish(self, state: Any) -> Any:
        return "seven" if state == 7 else state


def test_what_a_pao_fails_on_fails_at_once_and_what_it_fails_to_merge_is_an_error_of_the_answer() -> None:
    register("capricious", Capricious())
    schema = single(aggregate("user", pl.Int64(), pao="capricious"))

    def of(*values: int) -> pl.DataFrame:
        return made(schema, raw([("x", value) for value in values], pl.Int64()))

    for value, said in ((13, "ValueError: an unlucky number$"), (99, "ValueError: a state of")):
        with pytest.raises(UserPaoError, match=f"^the aggregate capricious fails: {said}"):
            of(1, value)
    assert answers(merged([of(1), of(2), of(5)], schema), schema) == {"x": 8}
    failed, other = merged([of(6), of(7)], schema), merged([of(7), of(6)], schema)
    assert failed.equals(other)
    # Whatever it is merged with, by whomever.
    for paos in (failed, merged([of(1), failed], schema), merged([failed, other, of(5)], schema)):
        with pytest.raises(UserPaoError, match=r"^the aggregate capricious fails: ValueError: an unlucky sum$"):
            answers(paos, schema)
    with pytest.raises(UserPaoError, match=r"^the aggregate capricious fails: TypeError"):
        answers(of(7), schema)
