"""With `ip = "prefix"` no column of any format holds an address, whatever the column is called."""

from __future__ import annotations

import re

import polars as pl
import pytest

from elf.agents.settings.config import PrivacySection
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.layout_lines import LayoutLines
from elf.agents.sources.privacy.redaction import Redactor
from elf.agents.sources.times.zones import UTC
from tests.agents.sources.format_files import layouts

ADDRESS = re.compile(r"(?:192\.0\.2|198\.51\.100|203\.0\.113)\.(?!0\b)[0-9]+|2001:db8::[0-9a-f]+")
#: What a line says in words may name an address; that is no value of its own.
TEXTS = {"message", "upstream_url", "request", "uri", "path", "query"}


def redacted(name: str, *lines: str) -> pl.DataFrame:
    format = make_format(name, zone=UTC)
    assert isinstance(format, LayoutLines)
    events = parse_chunk(format, "".join(line + "\n" for line in lines).encode(), format.columns).events
    assert events.height == len(lines)
    settings = PrivacySection(ip="prefix")
    return Redactor(settings, derived=format.derives_all, addresses=format.addresses).events(events)


@pytest.mark.parametrize("name", layouts())
def test_no_column_of_a_sample_holds_an_address(name: str) -> None:
    lines = [sample["line"] for sample in layouts()[name]["samples"]]
    assert any(map(ADDRESS.search, lines))
    for row in redacted(name, *lines).to_dicts():
        shown = {column: value for column, value in row.items() if isinstance(value, str) and column not in TEXTS}
        assert not {column: value for column, value in shown.items() if ADDRESS.search(value)}


@pytest.mark.parametrize("address", ["203.0.113.77", "[2001:db8::77]:443", "2001:db8::77", "203.0.113.77:8080"])
@pytest.mark.parametrize("place", ["referer", "agent"])
def test_a_text_that_is_an_address_is_one_in_whichever_column(address: str, place: str) -> None:
    texts = {"referer": "-", "agent": "-"} | {place: address}
    front = 'gw.example.net - - [26/Nov/2026:09:00:00 +0000] "GET /a HTTP/1.1" 200 5'
    line = f'{front} "{texts["referer"]}" "{texts["agent"]}"'
    (row,) = redacted("combined", line).to_dicts()
    assert not [value for value in row.values() if isinstance(value, str) and ADDRESS.search(value)]
    assert row["remote_addr"] is None, "a name says more than an address"
