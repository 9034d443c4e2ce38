"""What people have is recognised, or refused; nothing is taken for another thing."""

from __future__ import annotations

import pytest

from elf.agents.sources.recognition import recognise
from tests.agents.sources import people_files
from tests.agents.sources.people_files import Named

FILES = [
    *people_files.logs(),
    *people_files.containers(),
    *people_files.headed(),
    *people_files.customs(),
    *people_files.strangers(),
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_is_recognised_or_refused(file: Named) -> None:
    found = recognise(file.data)
    names = found.format.names if found.format is not None else ()
    assert {*names} == {*file.formats}, found.why_open if found.format is None else found.format


def test_there_are_files_enough() -> None:
    assert len(FILES) >= 100
    assert sum(not file.formats for file in FILES) >= 40
