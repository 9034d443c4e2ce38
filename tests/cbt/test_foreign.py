"""Whose failure it is: of somebody else's code, or of this process."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

import elf.cbt.foreign
from elf.cbt.foreign import is_theirs

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
