"""Fixtures that several packages share, and which tests are one worker's when several run at a time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes says more of what else the machine does than of the code; timings are scripts/bench's.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let all files with Spark share one, at one worker: its JVM alone wants 20 s of a core."""
    with_spark = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    for item in items:
        if item.path in with_spark:
            item.add_marker(pytest.mark.xdist_group("spark"))
    items.sort(key=lambda item: item.path not in with_spark)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadgroup`, keep each file at one worker, and what shares a group, too."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.scheduling import Files

    return Files(config, log)


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """Let every test hear the log, also after one of a command that silences it for the rest of its process."""
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local Spark for the whole run; whatever starts Spark asks for it, so that there is no other."""
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
