"""Functions that a job brings along, on Spark: confined, and with the answers that agents have."""

from __future__ import annotations

import datetime
import os
import pathlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from elf.agents.extensions.signed.runners import Runners
from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.plan import compile_job
from elf.agents.language.own_functions import OwnFunction
from elf.agents.worker.poison import insert_whatever
from elf.offline import confined
from elf.offline.own import Own, Trusted
from elf.offline.session import OfflineError, in_one_sentence
from elf.offline.verify.rows import RowsPlan
from tests.agents.extensions.signed.signed_jobs import SECRET, TRUSTED, signed
from tests.agents.extensions.signed.test_runners import POSIX
from tests.elf.offline.test_functions import COLUMNS, MODULE, POINTS, START_MS, Taker, on_spark, times
from tests.installing import install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW = START_MS, START_MS + 60_000
FUNCTIONS = """
[functions.own_moved]
args = ["TIMESTAMP", "DATE", "BOOLEAN", "INT"]
returns = "TIMESTAMP"
source = '''
import datetime
def own_moved(at, day, forward, hours):
    if at is None:
        return None
    return at + datetime.timedelta(hours=hours if forward else -hours, days=0 if day is None else day.day)
'''
[functions.own_after]
args = ["DATE", "BIGINT"]
returns = "DATE"
strict = true
source = '''
from datetime import timedelta
def own_after(day, days):
    return day + timedelta(days=days)
'''
[functions.own_weight]
args = ["STRING", "DOUBLE"]
returns = "DOUBLE"
strict = true
source = "def own_weight(text, factor): return len(text) * factor"
[functions.own_sign]
args = ["INT"]
returns = "STRING"
source = "def own_sign(n): return 'none' if n is None else 'even' if n % 2 == 0 else None"
[functions.own_lucky]
args = ["BIGINT"]
returns = "BOOLEAN"
source = '''
def own_lucky(n):
    if n == 13:
        raise ValueError("an unlucky number")
    return None if n is None else n > -4
'''
"""
QUERY = """SELECT own_moved(at, day, n > 0, n) AS moved, own_after(day, n) AS day, count(*) AS c,
  sum(own_weight(k, 2)) AS weight, max(own_after(day, n)) FILTER (WHERE own_sign(n) IS NOT NULL) AS latest,
  min(own_sign(n)) AS sign, max(own_moved(ts, NULL, true, 1)) AS next
FROM clicks WHERE own_lucky(n) IS NOT FALSE
GROUP BY own_moved(at, day, n > 0, n), own_after(day, n), window(ts, '1 minute') ORDER BY 1, 2, 3"""


def text_of(query: str, functions: str) -> str:
    return signed(f'name = "own"\ncreator = "shop"\nquery = """\n{query}"""\n{functions}', SECRET)


def own_of(text: str) -> Own:
    return Trusted(TRUSTED.items()).admit("shop", "own", load_definition(text).functions)


@pytest.fixture
def frame() -> pl.DataFrame:
    day, at = datetime.date(2026, 2, 3), datetime.datetime(2026, 7, 1, 2, 30, 0, 123_456)
    rows: list[tuple[Any, ...]] = [
        (0, "a", 2, day, at), (1, "a", 2, None, at), (2, None, 3, day, None), (3, "bcd", 13, day, at),
        (4, "a", None, day, at), (5, "é", -4, day, at), (6, "", 4, day, datetime.datetime(1900, 1, 1)),
        (7, "ab", 2, day, at), (8, "\U0001f600", -3, datetime.date(1969, 12, 31), datetime.datetime(1969, 12, 31, 9)),
        (9, "z", None, day, None), (10, "y", 2**31 - 1, day, None),
    ]  # fmt: skip
    schema = {"ts": pl.Int64, **{name: kind.dtype for name, kind in COLUMNS.items()}}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        (pl.col("ts") + START_MS).cast(pl.Datetime("ms"))
    )


def taking(text: str, runners: Runners) -> Taker:
    """Events as an agent takes them in that runs the job's functions."""
    return Taker(compile_job(load_definition(text), COLUMNS, runners.admit))


@pytest.fixture
def runners() -> Iterator[Runners]:
    made = Runners(None)
    yield made
    made.close()


def expected(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """What the query says, in plain Python."""
    groups: dict[Any, list[Any]] = {}
    for ts, k, n, day, at in frame.rows():
        if n in (13, -4) or (at is not None and n is None) or n == 2**31 - 1:
            continue  # it raises, it is filtered, or hours or days are no number that it can take
        shift = None if at is None else datetime.timedelta(hours=abs(n), days=0 if day is None else day.day)
        later = None if day is None or n is None else day + datetime.timedelta(days=n)
        moved = None if at is None or shift is None else at + shift
        groups.setdefault((moved, later), []).append((ts, k, n, later))
    found = []
    for key, rows in groups.items():
        weights = [2.0 * len(k) for _, k, _, _ in rows if k is not None]
        signs = ["none" if n is None else "even" for _, _, n, _ in rows if n is None or n % 2 == 0]
        days = [later for _, _, n, later in rows if later is not None and (n is None or n % 2 == 0)]
        newest = max(ts for ts, *_ in rows) + datetime.timedelta(hours=1)
        weight = sum(weights) if weights else None
        found.append((*key, len(rows), weight, max(days, default=None), min(signs, default=None), newest))
    return sorted(found, key=lambda row: [(each is not None, each) for each in row[:2]])


def test_spark_has_what_agents_have_and_what_the_query_says(
    spark: SparkSession, frame: pl.DataFrame, tmp_path: pathlib.Path, runners: Runners
) -> None:
    text = text_of(QUERY, FUNCTIONS)
    taker = taking(text, runners)
    assert insert_whatever(taker, frame) == 3
    ours = taker.rows(WINDOW).rows()
    theirs = RowsPlan(QUERY, own_of(text)).run(on_spark(spark, frame, tmp_path), WINDOW)
    assert ours == expected(frame) and len(ours) == 6
    assert theirs.rows == times(ours)
    assert theirs.types == ("timestamp", "date", "bigint", "double", "date", "string", "timestamp")


def test_a_function_of_the_jobs_own_hides_what_is_installed_and_what_it_answered_is_of_its_very_arguments(
    spark: SparkSession,
    frame: pl.DataFrame,
    tmp_path: pathlib.Path,
    runners: Runners,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(tmp_path / "site", monkeypatch, "spark-functions", POINTS, {"spark_functions": MODULE})
    functions = '[functions.spark_weight]\nargs = ["DOUBLE"]\nreturns = "STRING"\n'
    functions += 'source = "def spark_weight(x): return repr(x)"'
    text = text_of("SELECT spark_weight(n * 0e0) AS x, count(*) AS c FROM clicks GROUP BY 1 ORDER BY 1", functions)
    taker = taking(text, runners)
    taker.insert(frame)
    theirs = RowsPlan(load_definition(text).query, own_of(text)).run(on_spark(spark, frame, tmp_path), None)
    assert theirs.rows == [("-0.0", 2), ("0.0", 7), ("None", 2)] == taker.rows(WINDOW).rows()


def processes() -> set[int]:
    """The processes of functions that this one's Spark has begun, and those whose worker is gone."""
    found = set()
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.endswith(b"signed/child.py") for word in words) and _is_ours(int(words[-2])):
            found.add(int(folder.name))
    return found


def _is_ours(pid: int) -> bool:
    while pid > 1 and pid != os.getpid():
        try:
            pid = int(pathlib.Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            return True
    return pid == os.getpid()


def test_a_worker_keeps_few_processes_and_some_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "KNOWN_MAX", 2)
    source = "calls = [{n}]\ndef own_count(x):\n    calls[0] += 1\n    return str(calls[0])"
    sets = [
        (OwnFunction(name="own_count", args=("STRING",), returns="STRING", source=source.replace("{n}", str(10 * n))),)
        for n in range(confined.PROCESSES_MAX + 1)
    ]
    calls = [confined.OwnCall("shop/own", functions, 0, "null") for functions in sets]
    before = processes()
    try:
        assert [call("a") for call in calls] == ["1", "11", "21", "31", "41"]
        assert len(processes() - before) == confined.PROCESSES_MAX
        assert [calls[-1](text) for text in ("a", "b", "a", "b", "c", "a")] == ["41", "42", "41", "42", "43", "44"]
        assert [calls[-1]("x" * 2_000) for _ in range(2)] == ["45", "46"]
    finally:
        for functions in sets:
            confined._close(functions)
    assert processes() <= before


HOSTILE = {
    "loops": ("def own_bad(x):\n    while True: pass", "its functions take too long: more than 1.0 s of a processor"),
    "forks": (f"{POSIX}def own_bad(x): return posix().fork()", "its functions made a system call that they may not"),
    "is no Python": ("def own_bad(x) return x", "the source of its function own_bad fails: SyntaxError"),
    "lies": (
        f'{POSIX}def own_bad(x): posix().write(4, b\'\\0\\0\\0\\x1b["answers", 1, [1], 0, ""]  \')',
        "its functions answer with what is not of their types",
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_may_not_be_is_one_sentence_and_nothing_is_left(
    what: str, spark: SparkSession, frame: pl.DataFrame, tmp_path: pathlib.Path
) -> None:
    source, why = HOSTILE[what]
    functions = f"[functions.own_bad]\nargs = [\"STRING\"]\nreturns = \"STRING\"\nsource = '''{source}'''"
    query = "SELECT own_bad(k) AS bad, count(*) AS c FROM clicks GROUP BY own_bad(k)"
    before = processes()
    plan = RowsPlan(query, own_of(text_of(query, functions)))
    with pytest.raises(OfflineError, match=f"^job shop/own cannot be verified: on Spark {why}"), in_one_sentence():
        plan.run(on_spark(spark, frame, tmp_path), None)
    deadline_s = time.monotonic() + 60
    while left := processes() - before:
        assert time.monotonic() < deadline_s, left
        time.sleep(0.05)


def test_a_file_cannot_be_opened_so_the_function_fails_on_the_event(
    spark: SparkSession, frame: pl.DataFrame, tmp_path: pathlib.Path, runners: Runners
) -> None:
    source = f"{POSIX}def own_opens(x): return x and str(posix().open('/etc/passwd', 0))"
    functions = f"[functions.own_opens]\nargs = [\"STRING\"]\nreturns = \"STRING\"\nsource = '''{source}'''"
    text = text_of("SELECT own_opens(k) AS file, count(*) AS c FROM clicks GROUP BY own_opens(k) ORDER BY 1", functions)
    taker = taking(text, runners)
    assert insert_whatever(taker, frame) == 9
    theirs = RowsPlan(load_definition(text).query, own_of(text)).run(on_spark(spark, frame, tmp_path), None)
    assert theirs.rows == [(None, 1), ("", 1)] == taker.rows(WINDOW).rows()
