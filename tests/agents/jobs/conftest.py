"""The rows of the conformance tests, in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.agents.jobs.rows import COLUMNS, frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="session")
def table(spark: SparkSession) -> DataFrame:
    """The rows in Spark; times go as whole microseconds, so that no clock of this machine is involved."""
    plain = frame().select(pl.all().exclude("tm", "ts"), pl.col("tm").cast(pl.Int64), pl.col("ts").dt.epoch("us"))
    types = {**{name: kind.ddl for name, kind in COLUMNS.items()}, "tm": "BIGINT", "ts": "BIGINT"}
    ddl = ", ".join(f"{name} {types[name]}" for name in plain.columns)
    loaded = spark.createDataFrame(plain.rows(), ddl)
    times = {"tm": "timestamp_micros(tm)", "ts": "timestamp_micros(ts)"}
    cached = loaded.selectExpr(*(f"{times.get(name, name)} AS {name}" for name in plain.columns)).coalesce(1).cache()
    cached.count()
    return cached
