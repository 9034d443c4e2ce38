"""Whose failure it is: of somebody else's code, or of this process; and what such code is given."""

from __future__ import annotations

import asyncio
import datetime
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

import elf.cbt.foreign
from elf.cbt.foreign import is_theirs, python_values

ANYTHING = [
    ValueError(), SystemExit(3), GeneratorExit(), asyncio.CancelledError(), MemoryError(), RecursionError(),
    pl.exceptions.PanicException(),
]  # fmt: skip


@pytest.mark.parametrize("error", ANYTHING, ids=lambda error: type(error).__name__)
def test_whatever_somebody_elses_code_raises_is_its_own(error: BaseException) -> None:
    assert is_theirs(error)


def test_an_interrupt_is_ours_in_the_main_thread_only() -> None:
    assert not is_theirs(KeyboardInterrupt())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(is_theirs, KeyboardInterrupt()).result()


def test_a_want_of_memory_is_ours_where_there_is_none_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elf.cbt.foreign, "_SPARE_BYTES", 1 << 62)
    assert not is_theirs(MemoryError())
    assert is_theirs(ValueError())


AT = datetime.datetime(2026, 11, 25, 8, 19, 16, 7_000)


@pytest.mark.parametrize(
    "values", [[1, None], ["a"], [[1.5], [], None], [AT, None], [AT.date(), None], [[AT, None], []], [[AT.date()]]]
)
def test_values_are_pythons(values: list[object]) -> None:
    column = pl.Series(values)
    assert python_values(column) == values
    if column.dtype == pl.Datetime:
        assert python_values(column.cast(pl.Datetime("ms"))) == values


@pytest.mark.parametrize("dtype", [pl.Date(), pl.Datetime("us"), pl.Datetime("ms")])
def test_a_time_that_python_does_not_have_is_an_error_not_a_panic(dtype: pl.DataType) -> None:
    beyond = pl.Series([2**31 - 1 if dtype == pl.Date else 2**62]).cast(pl.Int32 if dtype == pl.Date else pl.Int64)
    for column in (beyond.cast(dtype), beyond.implode().cast(pl.List(dtype))):
        with pytest.raises(OverflowError):
            python_values(column)
