"""Formats whose columns are named by header lines."""

from __future__ import annotations

import pytest

from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Counters
from elf.agents.sources.format import make_format, parse_chunk
from tests.agents.sources.format_files import formats, rows

NOW_MS = 1_795_683_600_000


def made(name: str):
    return make_format(name, now_ms=lambda: NOW_MS)


@pytest.mark.parametrize("name", ["w3c", "cloudfront", "gcs", "csv"])
def test_samples_become_what_they_have_to(name: str) -> None:
    format, samples = made(name), formats()[name]["samples"]
    columns = format.columns or dict.fromkeys(("status", "path", "note"), SqlType.STRING)
    parsed = parse_chunk(format, "".join(s["line"] + "\n" for s in samples).encode(), columns)
    expected = [sample["expect"] for sample in samples if sample["expect"]]
    print(parsed.rejects)
    assert parsed.counters == Counters(len(samples), len(expected), headers=len(samples) - len(expected))
    for row, right in zip(rows(parsed), expected, strict=True):
        assert row == {name: right.get(name) for name in row}
