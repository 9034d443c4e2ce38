"""Polars alone over the same file, streaming: `engine_polars.py QUERY FILE`; prints the result as JSON."""

from __future__ import annotations

import json
import os
import sys

os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import polars as pl
from queries import WINDOW_MS


def main(name: str, path: str) -> None:
    """Run a query over a file and print its rows."""
    frame = _topk(path) if name == "topk" else _count(path)
    json.dump([list(row) for row in frame.collect(engine="streaming").iter_rows()], sys.stdout)


def _topk(path: str) -> pl.LazyFrame:
    schema = dict.fromkeys(("ts", "category", "event", "product"), pl.String) | {"price_cents": pl.Int64}
    at = pl.col("ts").str.to_datetime("%Y-%m-%dT%H:%M:%S%.3fZ", time_unit="ms").dt.epoch("ms")
    return (
        pl.scan_ndjson(path, schema=schema)
        .filter((pl.col("category") == "Video Games") & (pl.col("event") == "click"))
        .group_by(start=at // WINDOW_MS * WINDOW_MS, product="product")
        .agg(clicks=pl.len(), cents=pl.sum("price_cents"))
        .sort("start", "clicks", "product", descending=[False, True, False])
        .group_by("start", maintain_order=True)
        .head(10)
    )


def _count(path: str) -> pl.LazyFrame:
    rows = pl.scan_ndjson(path, schema={"product": pl.String})
    return rows.group_by("product").agg(n=pl.len()).sort("n", "product", descending=[True, False])


if __name__ == "__main__":
    main(*sys.argv[1:])
