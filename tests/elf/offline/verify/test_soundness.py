"""Files that are not what their agents wrote: each is named once, and read only if that is possible."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from elf.agents.archive.archive import Archive
from elf.agents.archive.layout import ArchivedFile, list_files
from elf.offline.progress import Steps
from elf.offline.verify.soundness import Soundness

EVENTS = pl.DataFrame({"ts": pl.Series([0, 1]).cast(pl.Datetime("ms")), "product": ["a", "b"], "n": [1, 2]})


@pytest.fixture
def file(tmp_path: Path) -> ArchivedFile:
    archive = Archive(tmp_path, "clicks", "web-1", rows_max=100)
    archive.append(EVENTS)
    archive.prepare(1)
    archive.commit(1)
    (file,) = list_files(tmp_path, "clicks")
    return file


def check(file: ArchivedFile) -> tuple[int, list[str]]:
    soundness = Soundness()
    readable = soundness.readable([file], Steps())
    assert soundness.readable([file], Steps()) == readable, "checked once, and remembered"
    assert list(soundness.checked) == [str(file.path)]
    return len(readable), soundness.damages


def test_a_file_as_it_was_written_is_sound(file: ArchivedFile) -> None:
    assert check(file) == (1, [])


def test_a_changed_event_is_still_read(file: ArchivedFile) -> None:
    EVENTS.with_columns(product=pl.lit("x")).write_parquet(file.path)
    readable, (damage,) = check(file)
    assert readable == 1 and "not those that agent web-1 wrote" in damage and file.path.name in damage


@pytest.mark.parametrize("other", [EVENTS.drop("n"), EVENTS.cast({"n": pl.String})], ids=["a column less", "a type"])
def test_a_file_with_other_columns_is_left_out(file: ArchivedFile, other: pl.DataFrame) -> None:
    other.write_parquet(file.path)
    readable, (damage,) = check(file)
    assert readable == 0 and damage.endswith("it cannot be read and is left out")


def test_a_file_that_is_no_parquet_or_gone_is_left_out(file: ArchivedFile) -> None:
    file.path.write_bytes(b"PAR1")
    assert check(file)[0] == 0
    file.path.unlink()
    readable, (damage,) = check(file)
    assert readable == 0 and "No such file" in damage
