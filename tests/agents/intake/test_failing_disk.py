"""Disks that refuse an operation, or are put back to an older state: nothing is lost unsaid or counted twice."""

import pathlib
import shutil
import sqlite3

import pytest

from elf.agents.worker.payload import unpack
from elf.overlay.contract import NEVER, Verdict
from tests.agents.archive.archived import read_archive
from tests.agents.archive.conftest import Disk
from tests.agents.intake.test_pump import BASE_MS, NOW_MS, PLAN, Site

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


def test_a_folder_put_back_to_an_older_state_counts_nothing_twice_and_says_so(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    app, site = PLAN.definition.app_id, Site(tmp_path)
    site.write((NOW_MS - 10_000, "a"))
    site.run()
    before = site.sealed[-1].snapshot.through
    site.pump.settle(app, Verdict(NEVER, before, missing=False))
    site.pump.checkpoint(force=True)
    site.database.close()
    shutil.copytree(tmp_path / "state", tmp_path / "older")
    site.start()
    site.clock.now_ms += 20_000
    site.write((NOW_MS + 1_000, "b"), (NOW_MS + 11_000, "c"))
    site.run()
    counted = site.sealed[-1].snapshot.through
    site.write((NOW_MS + 19_500, "d"))
    site.run()
    site.database.close()
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "older", tmp_path / "state")
    site.start()
    site.sealed.clear()
    site.pump.settle(app, Verdict(before, counted, missing=False))
    site.pump.checkpoint(force=True)
    site.run()
    site.write((NOW_MS + 11_500, "late"), (NOW_MS + 20_500, "e"))
    site.clock.now_ms += 20_000
    site.run()
    # Nobody knows whether d, which came late, was counted, too.
    assert [product for _, product in site.rows()] == ["e"], "what was counted does not come again"
    notes = [unpack(one.snapshot.payload, PLAN)[0] for one in site.sealed if one.snapshot.payload is not None]
    first, second = (gap for each in notes for gap in each.gaps)
    assert first == (before + 1, counted)
    assert second[0] <= counted + 1 and second[1] == (BASE_MS + NOW_MS + 20_000) // 2_000, "up to now"
    assert "put back to an older state" in caplog.text
    site.database.close()
