"""Installed packages are found once and late; what cannot be used is named, and costs nobody else anything."""

from __future__ import annotations

import importlib.metadata
import logging
from pathlib import Path

import pytest

from elf.agents.errors import JobSpecError
from elf.agents.jobs.plan import Plan
from elf.agents.language.installed import installed
from elf.checking.validate import check_job
from tests.agents.plans import plan_of
from tests.installing import install

GOOD = """
import elf

@elf.scalar(args=["BIGINT"], returns="BIGINT")
def doubled(cents):
    return None if cents is None else 2 * cents
"""


def job(call: str) -> Plan:
    return plan_of(f"SELECT {call} AS x, count(*) AS n FROM clicks GROUP BY {call}")


def refusal(call: str) -> str:
    with pytest.raises(JobSpecError) as caught:
        job(call)
    return str(caught.value)


def test_a_good_function_is_known_by_name_in_any_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "good", {"doubled": "load_good:doubled"}, {"load_good": GOOD})
    assert job("DOUBLED(cents)").output[0] == ("x", job("doubled(cents)").output[0][1])
    said = "doubld() is not in the job language, and no function of that name is installed (did you mean 'doubled' or "
    assert said in refusal("doubld(cents)")
    assert "doubled() takes 1 argument(s), not 2" in refusal("doubled(cents, 1)")
    assert "argument 1 of doubled is BOOLEAN, it takes BIGINT" in refusal("doubled(cents > 1)")
    assert check_job("SELECT doubled(n) AS x, count(*) AS c FROM s GROUP BY doubled(n)", "a.sql") == ()
    (finding,) = check_job("SELECT doubld(n) AS x, count(*) AS c FROM s GROUP BY 1", "a.sql")
    assert (finding.line, finding.column) == (1, 8) and "did you mean 'doubled'" in finding.message


def test_a_name_of_the_language_or_of_sql_is_refused_once_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = ["lower", "sum", "md5", "window", "cast", "case", "Doubled", "doubled"]
    points = {name: "load_clash:doubled" for name in names}
    install(tmp_path, monkeypatch, "clashing", points, {"load_clash": GOOD})
    with caplog.at_level(logging.WARNING):
        job("doubled(cents)")
        job("lower(product)")
    (record,) = caplog.records
    said = record.getMessage()
    assert said.startswith(
        "functions of the installed package clashing 1.0 cannot be used: Doubled: 'Doubled' is no name"
    )
    assert said.count("there is a function of this name in Spark or in the job language; give it another one") == 4
    assert said.count("this is a word of SQL; give it another name") == 2
    assert installed.installed().names == ("doubled",)


@pytest.mark.parametrize(
    ("value", "module", "why"),
    [
        ("load_bad1:x", "raise RuntimeError('no licence')", "cannot be imported (RuntimeError: no licence)"),
        ("load_bad2:x", "raise SystemExit(3)", "cannot be imported (SystemExit: 3)"),
        ("load_bad3:x", "import no_such_module", "cannot be imported (ModuleNotFoundError: No module named"),
        ("load_bad4:x", "y = 1", "cannot be imported (AttributeError: module 'load_bad4' has no attribute 'x')"),
        ("load_bad5:x", "x = len", "load_bad5:x is builtin_function_or_method; make it with elf.scalar,"),
        ("load_bad6:x", "import elf\nx = elf.scalar(args=['STR'], returns='INT')(str)", "unknown column type 'STR'"),
    ],
)
def test_a_package_that_cannot_be_used_is_named_and_its_functions_are_unknown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    value: str,
    module: str,
    why: str,
) -> None:
    points = {"bad_one": value, "bad_two": value}
    install(tmp_path / "bad", monkeypatch, "bad", points, {value.partition(":")[0]: module})
    install(tmp_path / "good", monkeypatch, "good", {"doubled": "load_good:doubled"}, {"load_good": GOOD})
    with caplog.at_level(logging.WARNING):
        said = refusal("bad_one(1)")
    assert "bad_one() is installed here and cannot be used: " in said and why in said
    (record,) = caplog.records
    assert record.getMessage().startswith("functions of the installed package bad 1.0 cannot be used: bad_one: ")
    assert why in record.getMessage() and "; bad_two: " in record.getMessage()
    assert job("doubled(cents)").schema.keys


def test_a_name_that_two_packages_declare_is_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for package in ("one", "two"):
        install(tmp_path / package, monkeypatch, package, {"doubled": "load_good:doubled"}, {"load_good": GOOD})
    assert "it is declared more than once, by one 1.0 and two 1.0" in refusal("doubled(cents)")


def test_jobs_without_such_functions_never_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(**_: str) -> None:
        raise AssertionError("there was no need")

    monkeypatch.setattr(installed, "_installed", None)
    monkeypatch.setattr(importlib.metadata, "entry_points", looked)
    plan_of("SELECT lower(product) AS p, sum(abs(cents)) AS s FROM clicks GROUP BY lower(product) HAVING count(*) > 1")
    with pytest.raises(AssertionError, match="no need"):
        plan_of("SELECT own(product) AS p, count(*) AS n FROM clicks GROUP BY own(product)")
