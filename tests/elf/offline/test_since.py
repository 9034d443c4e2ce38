"""What `--since` may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import JobError
from elf.offline.since import parse_since

NOW_MS = 1_767_225_600_000


@pytest.mark.parametrize(
    ("text", "since_ms"),
    [
        ("2h", NOW_MS - 7_200_000),
        ("1d 12h", NOW_MS - 36 * 3_600_000),
        ("2026-01-01T00:00:00Z", NOW_MS),
        ("2026-01-01T01:00:00+01:00", NOW_MS),
        ("2026-01-01", NOW_MS),
        ("1767225600000", NOW_MS),
    ],
)
def test_a_length_of_time_counts_back_and_a_time_is_itself(text: str, since_ms: int) -> None:
    assert parse_since(text, NOW_MS) == since_ms


def test_a_total_counts_from_a_time() -> None:
    assert parse_since("2026-01-01T00:00:00Z", None) == NOW_MS
    with pytest.raises(JobError, match=r"--since '7d': .* counts from a fixed time; give one such as 2026-"):
        parse_since("7d", None)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_in_one_sentence(text: str) -> None:
    try:
        assert isinstance(parse_since(text, NOW_MS), int)
    except JobError as error:
        assert str(error).endswith("or a duration such as 2h or 7d")
