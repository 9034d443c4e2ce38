"""Lines in wrappers: container runtimes' logs and the journal, whole and in parts."""

from __future__ import annotations

import pytest

from elf.agents.sources.counters import Counters
from elf.agents.sources.format import make_format, parse_chunk
from tests.agents.sources.format_files import formats, rows

NOW_MS = 1_795_683_600_000


@pytest.mark.parametrize("name", ["docker", "journald", "cri"])
def test_samples_become_what_they_have_to(name: str) -> None:
    entry = formats()[name]
    format = make_format(f"{name}+{entry['wraps']}", now_ms=lambda: NOW_MS)
    text = "".join(sample["line"] + "\n" for sample in entry["samples"]).encode()
    parsed = parse_chunk(format, text, format.columns or {})
    expected = [sample["expect"] for sample in entry["samples"] if sample["expect"]]
    assert parsed.rejects == ()
    assert parsed.counters == Counters(3, len(expected), parts=3 - len(expected))
    for row, right in zip(rows(parsed), expected, strict=True):
        row.pop("request")
        assert row == {column: right.get(column) for column in row}
    refused = "".join(line + "\n" for line in entry["refused"]).encode()
    assert parse_chunk(format, refused, {}).counters == Counters(1, rejected=1)
