"""What a person reads when Spark cannot start."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from elf.offline.session import OfflineError, check_java, check_pyspark, in_one_sentence, parse_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fake_java(folder: Path, says: str) -> None:
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)


def test_java_here_is_enough() -> None:
    check_java()


def test_no_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OfflineError, match=r"no `java` on the PATH; install Java 17 .*apt install"):
        check_java()


@pytest.mark.parametrize(("says", "version"), [('openjdk version "11.0.2"', "11"), ('java version "1.8.0_392"', "8")])
def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, version: str) -> None:
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(OfflineError, match=f"is Java {version}, Spark needs 17"):
        check_java()


def test_java_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(OfflineError, match="does not run"):
        check_java()


def test_no_pyspark_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(OfflineError, match=r"pip install 'elf-stream\[spark\]'"):
        check_pyspark()


def test_an_old_pyspark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.1")
    with pytest.raises(OfflineError, match=r"pyspark 3\.5\.1 is too old"):
        check_pyspark()


def test_settings_are_read_and_those_that_decide_meanings_refused() -> None:
    words = ["spark.executor.memory=4g", "spark.x=a=b", "spark.sql.session.timeZone=UTC"]
    assert parse_conf(words) == {
        "spark.executor.memory": "4g",
        "spark.x": "a=b",
        "spark.sql.session.timeZone": "UTC",
    }
    for word, said in [
        ("spark.executor.memory", "write it like spark.executor.memory=4g"),
        ("memory=4g", "is no setting of Spark"),
        ("spark.sql.session.timeZone=CET", "decides what their queries mean"),
    ]:
        with pytest.raises(OfflineError, match=said):
            parse_conf([word])


def test_what_fails_inside_spark_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(OfflineError, match=r"Spark could not finish: .*Parquet") as caught, in_one_sentence():
        spark.read.schema("a int").parquet(str(tmp_path)).collect()
    assert len(str(caught.value).splitlines()) == 1 and "\tat " not in str(caught.value)
