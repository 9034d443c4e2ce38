"""What follows from audits: who is shut out, who is excused and how often, and what is remembered."""

from __future__ import annotations

import pytest

from elf.agents.audits import findings, memory
from elf.agents.audits.comparison import Outcome
from elf.agents.audits.findings import EXCUSES_MAX, SILENCES_SAID, UNDERWAY_MS, Finding, Findings
from elf.agents.audits.memory import KEPT_MS, SnapshotMemory

TREE, OTHER = bytes(20), bytes([1]) * 20
C, D = "10.0.0.1:1", "10.0.0.1:2"


def test_who_finds_nothing_in_what_it_was_handed_has_done_it() -> None:
    assert Findings().must_go(TREE, C, "", 0)


@pytest.mark.parametrize("named", [D, None])
def test_who_names_others_or_says_nothing_is_excused_a_few_times(named: str | None) -> None:
    known = Findings()
    for _ in range(EXCUSES_MAX):
        assert not known.must_go(TREE, C, named, 0)
    assert not known.must_go(OTHER, C, named, 0)
    assert not known.must_go(TREE, D, named, 0)
    assert known.must_go(TREE, C, named, 0)
    assert known.counts["excused"] == EXCUSES_MAX + 2


def test_claims_that_were_on_their_way_are_of_one_excuse() -> None:
    known = Findings()
    assert not known.is_excused(TREE, C, 5_000)
    known.must_go(TREE, C, D, 5_000)
    assert known.is_excused(TREE, C, 4_000) and known.is_excused(TREE, C, 5_000 + UNDERWAY_MS)
    assert not known.is_excused(TREE, C, 5_001 + UNDERWAY_MS)
    assert not known.is_excused(OTHER, C, 5_000) and not known.is_excused(TREE, D, 5_000)


def test_findings_are_of_one_tree_and_go_with_it() -> None:
    known = Findings()
    known.shut(TREE, Finding(C, "web1"))
    assert known.has_shut(TREE, C) and not known.has_shut(OTHER, C) and not known.has_shut(TREE, D)
    assert known.found() == [(TREE, Finding(C, "web1"))]
    known.forget(TREE)
    assert not known.found()


def test_who_does_not_show_what_it_signed_is_said_after_a_while() -> None:
    known = Findings()
    for _ in range(SILENCES_SAID - 1):
        known.ended(TREE, Outcome.UNDECIDED, "a")
    assert known.silent() == []
    known.ended(TREE, Outcome.UNDECIDED, "a")
    assert known.silent() == [(TREE, "a")]
    known.shown(TREE, "a")
    assert known.silent() == []
    assert known.counts["undecided"] == SILENCES_SAID


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "REMEMBERED_MAX", 3)
    known = Findings()
    for n in range(9):
        known.must_go(TREE, f"{n}", None, 0)
        known.shut(TREE, Finding(f"{n}", ""))
        known.ended(TREE, Outcome.UNDECIDED, f"{n}")
    assert [len(each) for each in (known._excuses, known._found, known._silent)] == [3, 3, 3]


def test_snapshots_are_kept_for_a_moment_and_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "KEPT_BYTES_MAX", 100)
    kept = SnapshotMemory()
    kept.keep(TREE, 1, b"x" * 40, 0)
    kept.keep(TREE, 2, None, 1)
    kept.keep(OTHER, 1, b"y" * 40, 2)
    assert (kept.find(TREE, 1), kept.find(OTHER, 1), kept.find(TREE, 2)) == (b"x" * 40, b"y" * 40, None)
    kept.keep(TREE, 3, b"z" * 101, 3)
    assert kept.find(TREE, 3) is None and kept.bytes == 80
    kept.keep(TREE, 4, b"z" * 40, 4)
    assert kept.find(TREE, 1) is None and kept.bytes == 80
    kept.keep(TREE, 4, b"w" * 10, 5)
    assert kept.find(TREE, 4) == b"w" * 10 and kept.bytes == 50
    kept.keep(TREE, 5, b"v", 5 + KEPT_MS)
    assert kept.bytes == 1
