"""An archive at a URL is read as the folder that it was copied from; what cannot be used is said in one sentence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import polars as pl
import pytest

from elf.agents.archive.archive import Archive
from elf.agents.archive.layout import HOUR_MS, ArchiveError, check_file, list_files
from elf.agents.archive.reader import hours_in
from elf.agents.archive.remote import Remote, StoreError, open_url
from elf.agents.archive.removed import add_removed, read_removed
from tests.agents.archive.archived import read_archive
from tests.agents.archive.numbered import START_MS, checkpoint, numbered

ROOT = "memory://bucket/elf"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    # What a path may hold, and a URL would quote.
    folder = tmp_path / "an archive %20 ä#"
    archive = Archive(folder, "clicks", "web-1", rows_max=100)
    for hour in range(3):
        number = pl.int_range(hour * 10, hour * 10 + 10, eager=True)
        checkpoint(archive, hour, numbered(number, START_MS + hour * HOUR_MS + number))
    add_removed(folder / "source=clicks", "web-1", [(1, 2)])
    return folder


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    store = fsspec.filesystem("memory")
    store.store.clear()
    yield store
    store.store.clear()


@pytest.fixture
def copied(folder: Path, memory: fsspec.AbstractFileSystem) -> Remote:
    for path in folder.rglob("*.*"):
        memory.pipe_file(f"{ROOT}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return open_url(f"{ROOT}/")


def test_a_url_is_read_as_the_folder(folder: Path, copied: Remote) -> None:
    for span in ((None, None), (START_MS + HOUR_MS, None), (None, START_MS + HOUR_MS), (5, 6)):
        here, there = list_files(folder, "clicks", *span), list_files(copied, "clicks", *span)
        assert [file.entry for file in there] == [file.entry for file in here]
        assert [str(file.path) for file in there] == [f"{ROOT}/{file.entry.path}" for file in here]
        assert [check_file(file) for file in there] == [check_file(file) for file in here]
        assert [hours_in(file.path) for file in there] == [hours_in(file.path) for file in here]
    assert len(list_files(copied, "clicks")) == 3
    assert read_archive(copied, "clicks").sort("ts").equals(read_archive(folder, "clicks").sort("ts"))
    assert read_removed(copied, "clicks") == read_removed(folder, "clicks") != []
    assert list_files(copied, "other") == [] and read_removed(copied, "other") == []


def test_what_comes_and_goes_at_a_url_is_seen_at_once(copied: Remote, memory: fsspec.AbstractFileSystem) -> None:
    files = list_files(copied, "clicks")
    memory.rm_file(str(files[0].path))
    assert list_files(copied, "clicks") == files[1:]
    assert not files[0].path.exists() and files[1].path.exists()
    with pytest.raises(FileNotFoundError):
        files[0].path.read_bytes()
    memory.pipe_file(str(files[1].path), b"changed")
    with pytest.raises(ArchiveError, match=f"{ROOT}/source=clicks/.*its bytes are not those that agent web-1 wrote"):
        check_file(files[1])


def test_paths_at_a_url_are_ordered_and_equal_as_paths_are(folder: Path) -> None:
    here, there = folder, open_url(folder.as_uri().replace("%20", " ").replace("%25", "%"))
    names = ["b", "a", "a.x", "a b"]
    assert [path.name for path in sorted(there / name for name in names)] == [
        path.name for path in sorted(here / name for name in names)
    ]
    assert there / "a" == open_url(there.url) / "a" != there / "b"
    assert {there.resolve(), open_url(there.url)} == {there}
    assert ((there / "a.parquet").stem, (there / "a").with_name("b")) == ("a", there / "b")
    assert str((there / "a" / "b").relative_to(there)) == "a/b"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://key:hush@bucket/elf", r"s3://\.\.\. is a URL with credentials, .* where s3fs looks for them"),
        ("gs://hush@bucket/elf", r"gs://\.\.\. is a URL with credentials"),
        ("https://web1/elf?sig=1", r"a URL with \? or #"),
        ("file://srv/elf", "three slashes, file:///srv/elf"),
        ("bucket/elf", "no URL; write it like s3://bucket/elf"),
        ("nosuch://bucket/elf", "nosuch://bucket/elf: .*nosuch"),
        # Not among what tests are run with.
        ("abfs://box@account.dfs.core.windows.net/elf", "abfs:// is not installed; install it with: pip install adlfs"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_in_a_sentence(url: str, said: str) -> None:
    with pytest.raises(StoreError, match=said) as caught:
        open_url(url)
    assert "hush" not in str(caught.value)


def test_whatever_a_store_raises_is_a_sentence_with_its_url(
    copied: Remote, memory: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no credentials")

    for name in ("ls", "isdir", "exists", "cat_file"):
        monkeypatch.setattr(type(memory), name, refuse)
    for ask in (lambda: list_files(copied, "clicks"), copied.is_dir, copied.exists, copied.read_bytes):
        with pytest.raises(ArchiveError, match=f"^{ROOT}.*: RuntimeError: no credentials$"):
            ask()


def test_a_bucket_that_is_not_there_is_empty_to_readers_and_an_error_to_writers(
    memory: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise FileNotFoundError("The specified bucket does not exist")

    place = open_url(ROOT) / "x"
    assert place.sizes() == {} and list(place.glob("*")) == [] and not place.exists()
    monkeypatch.setattr(type(memory), "pipe_file", refuse)
    with pytest.raises(StoreError, match=f"^{ROOT}/x: FileNotFoundError: The specified bucket does not exist$"):
        place.write_bytes(b"x")


def test_a_file_is_seen_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = open_url(f"file://{tmp_path}/a/b") / "x.parquet"
    right = type(place.store).pipe_file

    def cut_short(store: fsspec.AbstractFileSystem, path: str, data: bytes) -> None:
        right(store, path, data[: len(data) // 2])
        raise RuntimeError("the power went")

    place.write_bytes(b"before")
    monkeypatch.setattr(type(place.store), "pipe_file", cut_short)
    with pytest.raises(StoreError, match="the power went"):
        place.write_bytes(b"what comes after")
    assert place.read_bytes() == b"before"
    monkeypatch.undo()
    place.write_bytes(b"what comes after")
    assert (place.read_bytes(), [path.name for path in (tmp_path / "a" / "b").iterdir()]) == (
        b"what comes after",
        ["x.parquet"],
    )


def test_without_fsspec_it_is_said_what_to_install() -> None:
    text = """
import sys
sys.modules["fsspec"] = None
from elf.agents.archive.remote import StoreError, open_url
try:
    open_url("s3://bucket/elf")
except StoreError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=120).stdout
    assert said.endswith("which is not installed; install it with: pip install 'elf-stream[url]'\n")
