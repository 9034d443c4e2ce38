"""The smallest schema that tests of the buffer tree share: counts of one string column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from elf.cbt.aggregates import aggregate
from elf.cbt.schema import PaoSchema
from elf.cbt.settings import TreeSettings

COUNTS = PaoSchema(keys=(("k", pl.String()),), aggregates=(("a0", aggregate("count")),))
#: So small that some hundred rows make a tree of several levels.
TINY = TreeSettings(root_rows=16, node_rows=32, leaf_rows=32, block_rows=16, fan_out=4)


def counts(keys: Sequence[str | None], n: int | Sequence[int] = 1, interval: int = 0) -> pl.DataFrame:
    """A frame of these keys, each so many times."""
    columns = {"interval": [interval] * len(keys), "k": keys, "a0_n": [n] * len(keys) if isinstance(n, int) else n}
    return pl.DataFrame(columns, schema=COUNTS.columns)


def content(frames: Iterable[pl.DataFrame]) -> dict[str | None, int]:
    """What frames of one interval hold; no key may come twice."""
    pairs = [(key, n) for frame in frames for _, key, n in frame.iter_rows()]
    assert len(dict(pairs)) == len(pairs), "a key comes twice"
    return dict(pairs)
