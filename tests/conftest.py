"""Fixtures that several packages share, and which tests are one worker's when several run at a time."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import pathlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from elf.agents.host.allocation import loading
from tests.scheduling import Files, shares_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes says more of what else the machine does than of the code; timings are scripts/bench's.
# Half of the usual examples keep the suite short; scripts/properties looks as long as one likes.
settings.register_profile("untimed", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=2_000)
settings.load_profile("untimed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Look for no garbage among modules and tests, now or later: all of these stay."""
    with loading():
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """See that what asks for Spark is run where Spark is."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and not shares_spark(item.path):
            raise pytest.UsageError(f"{item.nodeid} asks for Spark: let its file import pyspark, for types at least")


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    """Run what is marked `virtual` in virtual time."""
    if item.get_closest_marker("virtual") is None:
        return {"real": asyncio.new_event_loop}
    # Not before it is needed: most tests need no agent.
    from tests.virtual.loop import VirtualLoop

    return {"virtual": VirtualLoop}


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Give what runs in virtual time a folder in memory, of the same name and with the same files in every run."""
    if request.node.get_closest_marker("virtual") is None:
        yield tmp_path
        return
    from tests.world.files import folder_of, numbered_files

    name = hashlib.blake2b(request.node.nodeid.encode(), digest_size=8).hexdigest()
    with folder_of(name) as folder, numbered_files():
        yield folder


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`, run tests in the order and at the workers that take the least time."""
    return Files(config, log) if config.getvalue("dist") == "loadfile" else None


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
