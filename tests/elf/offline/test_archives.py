"""Archives at URLs: what Spark is told, and that verify and backfill see what they see in folders."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from elf.agents.archive.layout import list_files
from elf.agents.archive.remote import open_url
from elf.cli.app import app
from elf.demo.clicks import START_MS
from elf.offline.archives import name_in_url, name_of, open_archives, spark_path
from elf.offline.backfill.run import run_backfill
from elf.offline.events import find_files
from elf.offline.session import OfflineError
from elf.offline.verify.run import run_verify
from tests.elf.offline.backfill.asked import QUERY, Asked, described
from tests.elf.offline.verify.master import Master, Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.elf.offline.conftest import Shop


def urls_of(folders: list[Path]) -> list[str]:
    """The folders as people write them: not quoted, and two ways for the first."""
    return [f"file://{folders[0]}/", *(f"file://{folder}" for folder in folders)]


@pytest.mark.parametrize(
    ("url", "spark_says", "name"),
    [
        ("s3://bucket/elf", "s3a://bucket/elf", "s3a://bucket/elf"),
        ("gcs://bucket/elf", "gs://bucket/elf", "gs://bucket/elf"),
        ("hdfs://name:9000/elf", "hdfs://name:9000/elf", "hdfs://name:9000/elf"),
        ("file:///srv/a b", "file:///srv/a%20b", "/srv/a b"),
    ],
)
def test_spark_is_told_what_hadoop_calls_a_url_and_is_understood(url: str, spark_says: str, name: str) -> None:
    file = type(open_url("memory://x"))(None, "", url) / "hour=01" / "x.parquet"
    assert name_of(file) == name_in_url(f"{spark_says}/hour%3D01/x.parquet") == f"{name}/hour=01/x.parquet"
    assert spark_path(Path("/srv/a b")) == name_of(Path("/srv/a b")) == name_in_url("file:///srv/a%20b") == "/srv/a b"


def test_verify_sees_in_urls_what_it_sees_in_folders(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    folders = [Path(shutil.copytree(folder, tmp_path / f"of {folder.name}")) for folder in shop.folders]
    damaged = Path(str(list_files(folders[1], "clicks", START_MS + 30_000, START_MS + 60_000)[-1].path))
    damaged.write_bytes(damaged.read_bytes() + b"x")

    def tamper(result: Result) -> None:
        result["rows"][0]["clicks"] += 1

    span = [f"{START_MS + 30_000}/{START_MS + 60_000}"]
    here, there = (
        run_verify(Master(shop, tamper=tamper), "top", span, open_archives(words))
        for words in (map(str, folders), urls_of(folders))
    )
    assert there.to_dict()["windows"] == here.to_dict()["windows"]
    cell = next(each for each in there.windows[0].differences if each.column == "clicks")
    assert sum(cell.agents.values()) == cell.offline and set(cell.agents) <= {"web-1", "web-2"}
    assert [said.removeprefix("file://") for said in there.damaged] == here.damaged and len(here.damaged) == 1


def test_backfill_loads_from_urls_what_it_loads_from_folders(spark: SparkSession, shop: Shop) -> None:
    loaded = []
    for words in (shop.folders[:1], urls_of(shop.folders[:1])):
        first_ms, until_ms = START_MS, START_MS + 20_000
        known = {"instance": "i", "first_ms": first_ms, "until_ms": until_ms}
        agents = [{"agent": "web-1", "name": "web1", "through_ms": until_ms}]
        asked = Asked(described(until_ms, until_ms, query=QUERY, backfill=known | {"agents": agents}))
        done = run_backfill(asked, "top", 0, open_archives(words), incomplete=True)
        assert done.rows > 0
        loaded.append([(each.first, each.last, each.missing, each.block) for each in asked.loaded])
    assert loaded[0] == loaded[1] != []


def test_a_folder_and_its_copy_are_not_both_read(shop: Shop, tmp_path: Path) -> None:
    copy = shutil.copytree(shop.folders[0], tmp_path / "copy")
    places = open_archives([str(shop.folders[0]), f"file://{copy}"])
    with pytest.raises(OfflineError, match=r"is in another archive, too: .*; name only one of them with --archive"):
        find_files(places, "clicks")
    assert len(find_files([*places[:1], *places[:1]], "clicks")) == len(find_files(places[1:], "clicks")) > 0


@pytest.mark.parametrize("command", ["verify", "backfill", "pipeline"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nope/archive", "nope/archive does not exist; name each agent's archive, DATA/archive"),
        ("file", "file is no folder"),
        ("data", "data is no archive, but has one; use --archive data/archive"),
    ],
)
def test_a_folder_that_is_no_archive_is_refused_before_anything_is_asked(
    command: str, name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/archive/source=clicks").mkdir(parents=True)
    (tmp_path / "file").touch()
    out = ["--out", "tables"] if command == "pipeline" else []
    result = CliRunner().invoke(app, [command, "top", "--archive", "data/archive", "--archive", name, *out])
    assert (result.exit_code, said in " ".join(result.stderr.split())) == (2, True), result.stderr


@pytest.mark.parametrize("command", ["verify", "backfill"])
def test_a_url_that_cannot_be_read_is_wrong_usage_and_asks_nobody(command: str) -> None:
    result = CliRunner().invoke(app, [command, "top", "--archive", "s3://key:hush@bucket/elf"])
    assert (result.exit_code, "URL with credentials" in result.stderr) == (2, True), result.stderr
    assert "hush" not in result.stderr
