"""Calling installed functions on the data path: from argument expressions to one expression over a frame.

A scalar function is a Python call a row, the slow path that its author has chosen; a vectorised one is a call a frame.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from elf.agents.errors import JobError
from elf.agents.language.installed.declaration import Scalar, Vectorised
from elf.agents.language.installed.entry_points import brief
from elf.cbt.foreign import is_theirs, python_values


class FunctionError(JobError):
    """An installed function failed on what it was given: its author's fault. The text names it."""

    # Polars raises a copy of what was raised inside an expression, made from its text with the expression added.
    def __init__(self, text: str) -> None:
        super().__init__(text.partition("\n")[0])


class FunctionsStoppedError(FunctionError):
    """The functions that a job brings along have done what they may not and run no more; the text says what."""


def evaluated(name: str, function: Scalar | Vectorised, arguments: Sequence[pl.Expr]) -> pl.Expr:
    """Build the expression that calls a function for each row; evaluating it may raise `FunctionError`.

    Args:
        name: as jobs call it.
        function: what is called.
        arguments: of the types that it takes.
    """

    def run(rows: pl.Series) -> pl.Series:
        columns = [rows.struct.field(f"{index}") for index in range(len(arguments))]
        if not rows.len():
            return pl.Series(rows.name, [], function.returns.dtype)
        try:
            if isinstance(function, Vectorised):
                return function(*columns).alias(rows.name)
            answers = [function(*row) for row in zip(*map(python_values, columns), strict=True)]
            return pl.Series(rows.name, answers, function.returns.dtype)
        except BaseException as error:
            if not is_theirs(error):
                raise
            raise FunctionError(f"the function {name} fails: {brief(error)}") from None

    # A struct makes constants as long as columns.
    rows = pl.struct(argument.alias(f"{index}") for index, argument in enumerate(arguments))
    return rows.map_batches(run, return_dtype=function.returns.dtype, is_elementwise=True)
