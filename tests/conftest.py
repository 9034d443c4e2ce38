"""Fixtures that several packages share."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes says more of what else the machine does than of the code; timings are scripts/bench's.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """Let every test hear the log, also after one of a command that silences it for the rest of its process."""
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local Spark for the whole run: starting it costs five seconds."""
    from elf.offline.session import open_session

    # A few thousand rows: planning and compiling cost far more than running.
    quick = {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    session = open_session("local[2]", quick)
    yield session
    session.stop()
