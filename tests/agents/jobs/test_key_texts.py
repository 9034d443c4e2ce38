"""Keys as people write them: whatever writes a value finds it, and what writes none of the type is refused."""

from __future__ import annotations

import datetime
from typing import Any

import polars as pl
import pytest

from elf.agents.errors import JobError
from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.key_texts import with_first_column, with_first_key
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.language.json_rows import json_rows
from elf.agents.language.types import SqlType
from tests.agents.plans import plan_of

AT = datetime.datetime(2026, 11, 25, 10)
COLUMNS = {"n": SqlType.BIGINT, "i": SqlType.INT, "d": SqlType.DOUBLE, "b": SqlType.BOOLEAN, "s": SqlType.STRING} | {
    "day": SqlType.DATE,
    "at": SqlType.TIMESTAMP,
}


def keyed(key: str, rest: str = "") -> Plan:
    query = f"SELECT count(*) AS c, {key} AS k FROM log GROUP BY {rest}{key}, window(ts, '4 seconds')"
    return compile_job(load_definition(query, filename="job.sql", creator="shop"), COLUMNS)


def found(plan: Plan, values: list[Any], text: str) -> list[Any]:
    ((column, dtype),) = plan.grouped.keys
    return with_first_key(plan, pl.DataFrame({column: pl.Series(values, dtype=dtype)}), text)[column].to_list()


@pytest.mark.parametrize(
    ("key", "value", "other", "texts"),
    [
        ("n", 7, -7, ["7", "07", "+7"]),
        ("i", -7, 7, ["-7"]),
        ("d", 1.0, 1.5, ["1", "1.0", "1e0"]),
        ("d", float("inf"), 1.5, ["Infinity", "inf"]),
        ("b", True, False, ["true", "True"]),
        ("s", "7", "07", ["7"]),
        ("day", datetime.date(2026, 11, 25), datetime.date(2026, 11, 26), ["2026-11-25"]),
        ("at", AT, AT + datetime.timedelta(hours=1), ["2026-11-25T10:00:00.000000Z", "2026-11-25 10:00:00"]),
        ("at", AT, AT + datetime.timedelta(hours=1), ["2026-11-25T11:00:00+01:00", "2026-11-25 10:00:00.000000"]),
        ("n + 1", 7, 8, ["7"]),
    ],
)
def test_whatever_writes_a_value_finds_it(key: str, value: Any, other: Any, texts: list[str]) -> None:
    plan = keyed(key)
    for text in texts:
        assert found(plan, [other, value, None, value], text) == [value, value]


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("n", "abc", r"first group key, n, holds whole numbers \(BIGINT\), and 'abc' is none of these"),
        ("n", "1.5", "whole numbers"),
        ("n", "99999999999999999999", "whole numbers"),
        ("i", "", r"whole numbers \(INT\), and ''"),
        ("d", "1,5", r"numbers \(DOUBLE\)"),
        ("d", "1_5", r"numbers \(DOUBLE\)"),
        ("d", " 1.5", r"numbers \(DOUBLE\)"),
        ("b", "1", r"true or false \(BOOLEAN\)"),
        ("day", "25.11.2026", r"days such as 2026-11-25 \(DATE\)"),
        ("at", "now", r"times such as 2026-11-25T10:00:00Z \(TIMESTAMP\)"),
        ("at", "0001-01-01T00:00:60Z", "TIMESTAMP"),
        ("at", "+300000-01-01T00:00:00Z", "TIMESTAMP"),
        ("length(s)", "abc", r"first group key, length\(s\), holds whole numbers"),
    ],
)
def test_what_writes_none_is_refused_with_the_key_and_its_type(key: str, text: str, said: str) -> None:
    with pytest.raises(JobError, match=said):
        found(keyed(key), [], text)


def test_keys_of_any_year_are_found_as_results_write_them() -> None:
    times = [253_402_300_800_000_000, -62_135_600_400_000_000, 1_704_067_200_000_000_000]
    plan = keyed("at")
    for at in times:
        (text,) = json_rows(pl.Series("k", [at]).cast(pl.Datetime("us")).to_frame())
        rows = with_first_key(plan, pl.DataFrame([pl.Series("k0", times).cast(pl.Datetime("us"))]), text["k"])
        assert rows["k0"].to_physical().to_list() == [at]
    days = pl.DataFrame([pl.Series("k0", [2_932_897, -719_529], pl.Int32).cast(pl.Date)])
    assert with_first_key(keyed("day"), days, "+10000-01-01")["k0"].to_physical().to_list() == [2_932_897]


def test_a_key_that_is_given_by_its_position_is_named() -> None:
    query = "SELECT n, count(*) AS c FROM log GROUP BY window(ts, '4 seconds'), 1"
    plan = compile_job(load_definition(query, filename="job.sql", creator="shop"), COLUMNS)
    with pytest.raises(JobError, match="first group key, n, holds"):
        found(plan, [], "x")


def test_a_job_without_keys_has_its_one_row_for_all() -> None:
    plan = plan_of("SELECT count(*) AS n FROM clicks")
    assert with_first_key(plan, pl.DataFrame({"n": [1]}), "abc").height == 1


def test_rows_of_a_job_over_others_are_known_by_their_first_column() -> None:
    rows = pl.DataFrame({"c": [7, 8, None], "k": ["a", "b", "c"]})
    assert with_first_column(keyed("s"), rows, "07")["k"].to_list() == ["a"]
    with pytest.raises(JobError, match="the first column, c, holds whole numbers"):
        with_first_column(keyed("s"), rows, "a")
    lists = plan_of("SELECT collect_set(cents) AS all FROM clicks GROUP BY product")
    with pytest.raises(JobError, match=r"the first column, all, holds lists \(ARRAY<BIGINT>\)"):
        with_first_column(lists, rows, "7")
