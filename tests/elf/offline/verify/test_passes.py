"""Which windows one pass computes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.offline.verify import passes as module
from elf.offline.verify.passes import passes


def result(start_ms: int | None, rows: int = 1, size_ms: int = 30, status: str = "final") -> dict[str, Any]:
    window = None if start_ms is None else {"start_ms": start_ms, "end_ms": start_ms + size_ms}
    return {"window": window, "through_ms": 99, "rows": [{}] * rows, "completeness": {"status": status}}


def why(result: dict[str, Any]) -> str:
    return "" if result["completeness"]["status"] == "final" else "open"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.booleans())), st.integers(1, 4), st.integers(1, 12))
def test_every_result_is_in_one_pass_of_windows_that_make_a_grid(
    drawn: list[tuple[int, int, bool]], windows_max: int, rows_max: int
) -> None:
    results = [result(at * 10, rows, status="final" if closed else "open") for at, rows, closed in drawn]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PASS_WINDOWS_MAX", windows_max)
        patch.setattr(module, "PASS_ROWS_MAX", rows_max)
        found = list(passes(results, lambda result: 10, why))
    assert [each for several, _ in found for each in several] == results
    for several, reason in found:
        assert {why(each) for each in several} == {reason} and len(several) <= windows_max
        assert len(several) == 1 or sum(len(each["rows"]) for each in several) <= rows_max
        starts = [each["window"]["start_ms"] for each in several]
        assert reason or starts == list(range(starts[0], starts[0] + 10 * len(starts), 10))


def test_windows_of_a_run_are_one_pass_and_others_are_not() -> None:
    def sizes(*results: dict[str, Any], slide_ms: int = 10) -> list[int]:
        return [len(several) for several, _ in passes(results, lambda result: slide_ms, why)]

    assert sizes(*map(result, range(0, 100, 10))) == [10]
    assert sizes(result(0), result(10), result(30)) == [2, 1]
    assert sizes(result(0), result(10, size_ms=40)) == [1, 1]
    assert sizes(result(None), result(None)) == [1, 1], "a job without windows"
    assert sizes(result(0, size_ms=5), result(10, size_ms=5)) == [1, 1], "events between them are in neither"
