"""Who is given which tests: one worker what has Spark, two what waits for processes, the others what computes."""

from __future__ import annotations

import pathlib
from types import SimpleNamespace
from typing import Any

import pytest

from tests.scheduling import Files, shares_spark

SIZES = {
    "tests/test_large.py": 9,
    "tests/test_small.py": 4,
    "tests/test_types.py": 3,
    "tests/test_rows.py": 3,
    "tests/system/test_one.py": 3,
    "tests/system/test_two.py": 4,
    "tests/system/test_three.py": 5,
}
WITH_SPARK = {"tests/test_types.py", "tests/test_rows.py"}


class Worker:
    """Remembers what it was given."""

    shutting_down = False

    def __init__(self, tests: list[str]) -> None:
        self.tests, self.given = tests, list[str]()
        self.gateway = SimpleNamespace(id="worker")

    def send_runtest_some(self, indices: list[int]) -> None:
        assert indices, "who has nothing to do asks for nothing more"
        self.given += [self.tests[index] for index in indices]

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(test.partition("::")[0] for test in self.given))


@pytest.fixture
def workers(tmp_path: pathlib.Path) -> tuple[Any, list[Worker]]:
    tests = [f"{file}::test_{number}" for file, size in SIZES.items() for number in range(size)]
    for file in SIZES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("    from pyspark.sql import DataFrame\n" if file in WITH_SPARK else "import os\n")
    options = SimpleNamespace(loadscopereorder=True)
    config: Any = SimpleNamespace(rootpath=tmp_path, option=options, getvalue=lambda _: ["3*popen"])
    files: Any = Files(config)
    made = [Worker(tests) for _ in range(3)]
    for worker in made:
        files.add_node(worker)
        files.add_node_collection(worker, tests)
    files.schedule()
    return files, made


def finish(files: Any, worker: Worker, file: str) -> None:
    for index, test in enumerate(worker.tests):
        if test.startswith(f"{file}::"):
            files.mark_test_complete(worker, index)


def test_spark_is_begun_first_and_stays_at_one_worker(workers: tuple[Any, list[Worker]]) -> None:
    _, (spark, *_) = workers
    assert set(spark.files) == WITH_SPARK


def test_two_wait_while_there_is_what_waits_and_begin_with_the_largest_file(
    workers: tuple[Any, list[Worker]],
) -> None:
    files, (spark, one, other) = workers
    assert [one.files, other.files] == [["tests/system/test_three.py"], ["tests/system/test_two.py"]]
    for file in WITH_SPARK:
        finish(files, spark, file)
    assert spark.files[2:] == ["tests/test_large.py"], "two wait, so this one computes"
    finish(files, one, "tests/system/test_three.py")
    finish(files, other, "tests/system/test_two.py")
    assert one.files[1:] == ["tests/system/test_one.py"] and other.files[1:] == ["tests/test_small.py"]
    for worker in (spark, one, other):
        for file in worker.files:
            finish(files, worker, file)
    given = [test for worker in (spark, one, other) for test in worker.given]
    assert sorted(given) == sorted(spark.tests), "each test is given to one worker, once"


def test_what_a_worker_leaves_when_it_crashes_is_done_by_others(workers: tuple[Any, list[Worker]]) -> None:
    files, (spark, one, other) = workers
    for index in [index for index, test in enumerate(one.tests) if test.startswith("tests/system/test_three.py")]:
        files.mark_test_complete(one, index)
    assert one.files == ["tests/system/test_three.py", "tests/system/test_one.py"]
    crashed = files.remove_node(one)
    assert crashed == "tests/system/test_one.py::test_0"
    done: set[tuple[Worker, str]] = set()
    while todo := {(worker, file) for worker in (spark, other) for file in worker.files} - done:
        for worker, file in todo:
            finish(files, worker, file)
        done |= todo
    left = {test for test in spark.tests if not test.startswith("tests/system/test_three.py")}
    assert {*spark.given, *other.given} == left
    assert spark.shutting_down and other.shutting_down


def test_a_file_that_imports_pyspark_anywhere_is_with_spark(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.py").write_text("if TYPE_CHECKING:\n    from pyspark.sql import SparkSession\n")
    (tmp_path / "b.py").write_text("# from pyspark.sql import SparkSession\nname = 'pyspark'\n")
    assert shares_spark(tmp_path / "a.py") and not shares_spark(tmp_path / "b.py")
