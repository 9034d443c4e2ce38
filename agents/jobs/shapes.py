"""What plans with the same keys and aggregates have in common: an agent has many such jobs, and holds it once."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import msgspec
import polars as pl

from elf.cbt.folding import creator
from elf.cbt.schema import PaoSchema


class Shape(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """The shape of PAOs, and how rows become such.

    Attributes:
        schema: their columns.
        create: reduces rows to PAOs; each aggregate that reads something reads the column of its name.
    """

    schema: PaoSchema
    create: Callable[[pl.DataFrame], pl.DataFrame]


#: For as long as a plan has one.
_shapes: weakref.WeakValueDictionary[tuple[PaoSchema, frozenset[str]], Shape] = weakref.WeakValueDictionary()


def shape_of(schema: PaoSchema, reading: frozenset[str]) -> Shape:
    """Return the shape that has a schema; `reading`: the names of those aggregates that read something."""
    shape = _shapes.get((schema, reading))
    if shape is None:
        inputs = {name: pl.col(name) if name in reading else None for name, _ in schema.aggregates}
        # Whoever was first, should others compile meanwhile.
        shape = _shapes.setdefault((schema, reading), Shape(schema, creator(schema, inputs)))
    return shape
