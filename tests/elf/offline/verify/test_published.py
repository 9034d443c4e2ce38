"""What results say of themselves."""

from __future__ import annotations

from typing import Any

import pytest

from elf.offline.verify.published import bounds_of, label_words, span_of, status_of, unfit_words

FULL = {"status": "final", "expected": 2, "reported": 2, "missing": [], "late": 0, "shed": 0, "gaps": 0}


def test_a_result_without_a_window_says_how_far_it_counted() -> None:
    assert span_of({"window": {"start_ms": 10, "end_ms": 20}, "completeness": FULL}) == (10, 20)
    assert span_of({"through_ms": 30, "completeness": FULL}) == (None, 30)
    assert span_of({"window": None, "completeness": FULL}) == (None, None)
    assert status_of({"completeness": FULL}) == "final"
    assert bounds_of({"window": {"start_ms": 10, "end_ms": 20}}) == (10, 20)


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ({}, []),
        ({"late": 3, "gaps": 1, "backfilled": 2}, ["late 3", "gaps 1", "backfilled 2"]),
        ({"semantics": "at-least-once"}, ["at-least-once"]),
        ({"semantics": "exactly-once"}, []),
        ({"missing": ["web-1", "web-2"], "reported": 0}, ["missing web-1 web-2"]),
        ({"reported": 1}, ["1 of 2 agents reported"]),
        ({"rejected": 2, "rejected_of": 9, "mistyped": {"n": 3}}, ["rejected 2", "mistyped n 3"]),
    ],
)
def test_what_a_label_announces(label: dict[str, Any], said: list[str]) -> None:
    assert label_words({"completeness": FULL | label}) == said


def test_what_spark_cannot_judge_is_said() -> None:
    assert unfit_words({"completeness": FULL}) == []
    said = ["3 values of n do not fit its type: they are null in the archive, too"]
    assert unfit_words({"completeness": FULL | {"mistyped": {"n": 3}}}) == said
