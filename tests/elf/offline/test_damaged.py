"""A file that Spark could not read is named, if it is not what its agent wrote."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from elf.agents.archive.layout import DamagedFileError, list_files
from elf.demo.clicks import START_MS
from elf.offline.backfill.run import run_backfill
from elf.offline.damaged import naming_damages
from elf.offline.pipeline.run import PipelineJob, Settings, run_pipeline
from elf.offline.session import OfflineError
from tests.elf.offline.backfill.asked import QUERY, Asked, described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.elf.offline.conftest import Shop


def test_what_spark_says_counts_where_all_files_are_sound_or_gone(shop: Shop, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(shop.folders[0], tmp_path / "copy"))
    files = list_files(folder, "clicks")
    with naming_damages(files):
        pass
    with pytest.raises(OfflineError, match="memory ran out"), naming_damages(files):
        raise OfflineError("memory ran out")
    damaged, gone = Path(str(files[-1].path)), Path(str(files[0].path))
    damaged.write_bytes(b"PAR1" + damaged.read_bytes()[4:-1])
    gone.unlink()
    with pytest.raises(DamagedFileError, match=f"^{damaged}: its bytes are not those"), naming_damages(files):
        raise OfflineError("some Java")
    with pytest.raises(ZeroDivisionError), naming_damages(files):
        raise ZeroDivisionError


def test_backfill_and_pipeline_name_a_damaged_file(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(shop.folders[0], tmp_path / "copy"))
    damaged = Path(str(list_files(folder, "clicks")[-1].path))
    damaged.write_bytes(b"x" * 1000)
    job = PipelineJob("ops", "all", "clicks", "SELECT product, count(*) AS n FROM clicks GROUP BY product", {}, 0)
    with pytest.raises(DamagedFileError, match=f"^{damaged}: its bytes are not those that agent"):
        run_pipeline(job, Settings([folder], tmp_path / "out"))
    until_ms = START_MS + 120_000
    agents = [{"agent": "web-1", "name": "web1", "through_ms": until_ms}]
    known = {"instance": "i", "first_ms": START_MS, "until_ms": until_ms, "agents": agents}
    asked = Asked(described(until_ms, until_ms, query=QUERY, backfill=known))
    with pytest.raises(DamagedFileError, match=f"^{damaged}: its bytes are not those that agent"):
        run_backfill(asked, "top", 0, [folder], incomplete=True)
