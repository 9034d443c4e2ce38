"""A table on disk: its records, and who may work on it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from elf.offline.pipeline.growth import Taken
from elf.offline.pipeline.table import Progress, Table, TableText
from elf.offline.session import OfflineError

TEXT = TableText("clicks", "SELECT count(*) AS n FROM clicks", {"user": "STRING"})


def test_progress_is_what_was_noted(tmp_path: Path) -> None:
    table = Table(tmp_path, "ops", "top")
    progress = Progress({"x": Taken("web-1", "ab", 3, ((0, 5),))}, ((0, 10),), {"user": "STRING"})
    with table.locked():
        assert table.progress() == Progress()
        table.note(progress)
        assert table.progress() == progress


@pytest.mark.parametrize("name", ["progress", "definition"])
def test_a_damaged_record_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    table = Table(tmp_path, "ops", "top")
    with table.locked():
        table.open(TEXT)
        table.note(Progress())
        path = tmp_path / ".elf/ops/top" / name
        path.write_bytes(path.read_bytes().replace(b"}", b" }"))
        with pytest.raises(OfflineError, match=f"{name} is damaged; remove it, and all windows"):
            table.open(TEXT)
            table.progress()


def test_the_same_definition_written_otherwise_goes_on(tmp_path: Path) -> None:
    table = Table(tmp_path, "ops", "top")
    with table.locked():
        table.open(TEXT)
        table.open(TableText("clicks", "select count(*)  as n\nfrom clicks", {"other": "INT"}))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (TableText("clicks", "SELECT count(*) AS m FROM clicks", {}), "its query differs"),
        (TableText("views", TEXT.query, {}), "source 'clicks', not 'views'"),
        (TableText("clicks", TEXT.query, {"user": "INT"}), "column 'user' is STRING, not INT"),
        (TableText("clicks", TEXT.query, {}, since_ms=5), "counts from another --since"),
    ],
)
def test_another_definition_is_refused(tmp_path: Path, changed: TableText, said: str) -> None:
    table = Table(tmp_path, "ops", "top")
    with table.locked():
        table.open(TEXT)
        with pytest.raises(OfflineError, match=said) as caught:
            table.open(changed)
    assert "give another --out, or the job another name" in str(caught.value)


def test_two_take_turns(tmp_path: Path) -> None:
    waiting, order = threading.Event(), []

    def second() -> None:
        with Table(tmp_path, "ops", "top").locked(waiting.set):
            order.append("second")

    thread = threading.Thread(target=second)
    with Table(tmp_path, "ops", "top").locked():
        thread.start()
        assert waiting.wait(60)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OfflineError, match="cannot be written"), Table(tmp_path / "file", "ops", "top").locked():
        pass


def test_windows_are_replaced_whole_and_go_with_their_last_row(tmp_path: Path) -> None:
    table = Table(tmp_path, "ops", "top")
    with table.locked(), table.staging() as folder:
        for name in ("one", "two"):
            (folder / name).write_text(name)
        table.replace([0, 1_500], {0: folder / "one", 1_500: folder / "two"})
        first = table.folder / "window=0/rows.parquet"
        assert first.read_text() == "one"
        assert (table.folder / "window=1500/rows.parquet").read_text() == "two"
        (folder / "other").write_text("other")
        table.replace([0, 1_500], {0: folder / "other"})
        assert first.read_text() == "other" and len(list(table.folder.iterdir())) == 1
    assert not folder.exists()


def test_what_a_crash_left_to_be_put_in_place_goes(tmp_path: Path) -> None:
    table = Table(tmp_path, "ops", "top")
    with table.locked():
        left = tmp_path / ".elf/ops/top/staging-left"
        left.mkdir()
        (left / "rows").write_text("half")
        with table.staging() as folder:
            assert not left.exists() and not list(folder.iterdir())
