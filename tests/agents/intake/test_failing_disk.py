"""A disk that refuses any one operation of a checkpoint: every event is in one snapshot and once in the archive."""

import pathlib
import sqlite3

import pytest

from agents.archive.reading import read_archive
from tests.agents.archive.conftest import Disk
from tests.agents.intake.test_pump import NOW_MS, PLAN, Site

HOUR_MS = 3_600_000


class RefusingDisk(Disk):
    """Refuses the chosen operation, once."""

    Crash = OSError


def run(site: Site) -> int:
    """Read and checkpoint until all is done, as often as the disk refuses; return how often that was."""
    refused, done = 0, False
    while not done:
        try:
            progressed = site.pump.step()
            site.sealed += site.pump.checkpoint()
            done = not progressed
        except (OSError, sqlite3.Error):
            refused += 1
            assert refused < 10, "it goes on by itself"
    return refused


def test_whatever_is_refused_every_event_is_handed_over_and_archived_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, number, reached = RefusingDisk(monkeypatch), 0, True
    while reached:
        number += 1
        (folder := tmp_path / str(number)).mkdir()
        site = Site(folder, archived=True)
        run(site)
        disk.left = number
        # Lines of two hours, so two files of the archive; then a time without any, which has nothing to archive.
        for lines in ([(NOW_MS + 100, "a"), (NOW_MS + HOUR_MS, "b")], [], [(NOW_MS + HOUR_MS + 9_000, "c")], []):
            site.write(*lines)
            site.clock.now_ms += HOUR_MS
            run(site)
        reached, disk.left = disk.left <= 0, -1
        assert sorted(product for _, product in site.rows()) == ["a", "b", "c"]
        stored = site.checkpoints.snapshots(PLAN.definition.app_id)
        assert tuple(one.snapshot for one in site.sealed) == stored, "none is kept from the tree"
        assert sorted(read_archive(folder / "archive", "clicks")["product"]) == ["a", "b", "c"]
        site.database.close()
    assert number > 10


def test_a_state_that_cannot_be_written_holds_up_a_source_that_has_nothing_to_archive(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, archived=True)
    site.write((NOW_MS, "a"))
    site.clock.now_ms += HOUR_MS
    run(site)
    site.clock.now_ms += HOUR_MS
    assert not site.pump.step()
    with monkeypatch.context() as patch:

        def full(*_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        patch.setattr(site.checkpoints, "write", full)
        for _ in range(3):
            with pytest.raises(sqlite3.OperationalError):
                site.pump.checkpoint()
    before = len(site.sealed)
    run(site)
    assert len(site.sealed) > before, "it goes on by itself"
    assert tuple(one.snapshot for one in site.sealed) == site.checkpoints.snapshots(PLAN.definition.app_id)
    site.database.close()
