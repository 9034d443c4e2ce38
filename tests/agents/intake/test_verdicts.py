"""Verdicts: applied once, acknowledged when durable, and not forgotten where the disk fails meanwhile."""

import pathlib
import sqlite3

import pytest

from elf.overlay.contract import NEVER, Verdict
from tests.agents.intake.test_pump import PLAN, Site

APP = PLAN.definition.app_id


def test_one_whose_snapshots_cannot_be_read_waits_with_those_behind_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    throughs = []
    for at_ms, product in ((1_000, "a"), (21_000, "b")):
        site.write((at_ms, product))
        site.run()
        throughs.append(site.sealed[-1].snapshot.through)
        site.clock.now_ms += 20_000
    first = site.pump.settle(APP, Verdict(NEVER, throughs[0], missing=True))
    second = site.pump.settle(APP, Verdict(throughs[0], throughs[1], missing=False))
    site.sealed.clear()
    with monkeypatch.context() as patch:

        def failing(*_: object) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        patch.setattr(site.checkpoints, "snapshots", failing)
        for _ in range(2):
            with pytest.raises(sqlite3.OperationalError):
                site.pump.checkpoint(force=True)
    assert not first.done() and not second.done()
    site.run()
    assert first.done() and second.done()
    site.clock.now_ms += 10_000
    site.run()
    assert [product for _, product in site.rows()] == ["a"], "it rides in the next snapshot, b is in a commit"
    site.database.close()
