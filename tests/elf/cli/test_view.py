"""A result on a terminal of any size: one line a row, no number cut, and nothing of data raw."""

from __future__ import annotations

import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from elf.agents.wire.result import Result
from elf.cli.view import age, fitted, plain_label, view
from tests.agents.http.fake_service import make_result

NOW_MS = 63_000


def result_of(**changes: object) -> Result:
    return msgspec.convert(make_result(**changes), Result)  # type: ignore[arg-type]


def drawn(result: Result, width: int, height: int | None = None, rows_max: int | None = None) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False)
    console.print(view(result, NOW_MS, width, height, rows_max))
    return out.getvalue().splitlines()


def test_rows_the_label_in_plain_words_and_how_late() -> None:
    lines = [line.rstrip() for line in drawn(result_of(), 80)]
    assert lines[0].endswith("00:00:30 to 00:01:00 UTC  ended 3 s ago")
    assert lines[3:5] == ["tetris        7", "zelda         5"]
    assert lines[-1] == "complete · 5 of 5 agents"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status": "revised", "revision": 2}, "complete, and corrected since it was first shown · 5 of 5 agents"),
        (
            {"status": "final_incomplete", "reported": 4, "missing": ["web3"], "late": 7},
            "closed, but not complete · whole from 4 of 5 agents · some or all missing of web3 · 7 late events",
        ),
        ({"status": "open"}, "still open: figures grow · 5 of 5 agents"),
        ({"status": "a new one"}, "a new one · 5 of 5 agents"),
    ],
)
def test_labels_in_plain_words(changes: dict[str, object], said: str) -> None:
    known = {**make_result(revision=0)["completeness"], **changes}
    assert plain_label(result_of(completeness=known).completeness) == said


@pytest.mark.parametrize(
    ("now_ms", "said"),
    [
        (60_000, "ended 0 s ago"),
        (59_000, "ended 0 s ago"),
        (179_000, "ended 119 s ago"),
        (180_000, "ended 2 min ago"),
        (60_000 + 7_200_000, "ended 2 h ago"),
        (60_000 + 5 * 86_400_000, "ended 5 d ago"),
    ],
)
def test_how_long_ago(now_ms: int, said: str) -> None:
    assert age(result_of(), now_ms) == said


def test_a_total_counts_up_to_a_time() -> None:
    assert age(result_of(window=None, through_ms=60_000), NOW_MS) == "counted up to 3 s ago"
    assert age(result_of(window=None), NOW_MS) == "nothing is counted yet"


def test_what_does_not_fit_is_counted() -> None:
    many = [{"product": f"p{i}", "clicks": i} for i in range(100)]
    lines = drawn(result_of(rows=many), 80, height=20)
    assert len(lines) < 20
    assert lines[-1].endswith(f"{100 - sum(line.startswith('p') for line in lines) + 1} more rows")
    assert drawn(result_of(rows=many), 80, rows_max=2)[-1].endswith("98 more rows")
    assert "1 more column" in " ".join(" ".join(drawn(result_of(rows=many), 12, rows_max=2)).split())


def test_keys_of_hostile_visitors_stay_in_their_line() -> None:
    hostile = "\x1b[2J\x1b]0;gone\x07\r\n\u202eevil" + "字" * 200
    lines = drawn(result_of(rows=[{"product": hostile, "clicks": 7}], columns=result_of().columns), 60)
    assert not [line for line in lines if set(line) & set("\x1b\x07\r\u202e")]
    (row,) = [line for line in lines if line.startswith("\\x1b")]
    assert row.rstrip().endswith("7") and "…" in row and cell_len(row) <= 60


@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=8), st.integers(1, 120))
def test_columns_fit_and_numbers_are_whole(columns: list[tuple[int, bool]], width: int) -> None:
    wanted, numbers = [each for each, _ in columns], [each for _, each in columns]
    widths = fitted(wanted, numbers, width)
    assert len(widths) <= len(wanted) and bool(widths) == bool(wanted)
    assert all(1 <= given <= want for given, want in zip(widths, wanted, strict=False))
    if len(widths) > 1:
        assert sum(widths) + 2 * len(widths) <= width
        assert all(given == want for given, want, number in zip(widths, wanted, numbers, strict=False) if number)
    if sum(wanted) + 2 * len(wanted) <= width:
        assert widths == wanted
