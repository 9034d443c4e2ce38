"""No full address leaves an agent that keeps prefixes or hashes: whole agents on lines of all formats."""

from __future__ import annotations

import pytest

from tests.privacy.given import ADDRESS
from tests.privacy.sweep import run, shares

#: Of each format; `scripts/privacy` takes more.
LINES = 25


@pytest.mark.parametrize("names", shares(), ids=lambda names: names[0])
def test_an_agent_tells_no_address(names: list[str]) -> None:
    found, leaks = run(1, names, LINES)
    assert not leaks, leaks[:5]
    told = {name: found[f"result of {name.replace('-', '_')}"] for name in names}
    assert all("'rows': [{" in result for result in told.values()), "there are events to be told of"
    assert any(path.endswith(".parquet") for path in found) and any("/rejected/" in path for path in found)
    assert "elf_lines_total" in found["metrics"]


def test_an_address_would_be_seen() -> None:
    full = ("192.0.2.17", "[2001:db8::17]:443", "2001:db8:2a::dead", "198.51.100.255:80")
    assert all(map(ADDRESS.search, full))
    assert not any(map(ADDRESS.search, ("192.0.2.0", "2001:db8::", "2001:db8:2a::", "[2001:db8::]:443", "10.0.0.1")))
