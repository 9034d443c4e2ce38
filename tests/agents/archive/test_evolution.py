"""Types of columns that change: all that is read is what was written, and the order of files does not matter."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.archive.evolution import check_types, common_types, is_readable
from elf.agents.archive.layout import ArchivedFile, ArchiveError, FileEntry
from elf.agents.language.types import SqlType

KINDS = [kind.ddl for kind in SqlType]


def file(number: int, **columns: str) -> ArchivedFile:
    name = f"{number}.parquet"
    return ArchivedFile(Path(name), FileEntry(name, "s", "a", 1, 1, 1, "", 0, 1, {"ts": "TIMESTAMP", **columns}))


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_common_type_holds_all_and_is_found_in_any_order(kinds: list[str], order: random.Random) -> None:
    files = [file(number, a=kind) for number, kind in enumerate(kinds)]
    order.shuffle(files)
    numbers = [kind for kind in ("INT", "BIGINT", "DOUBLE") if kind in kinds]
    if len(set(kinds)) == 1 or set(kinds) <= {"INT", "BIGINT", "DOUBLE"}:
        widest = kinds[0] if len(set(kinds)) == 1 else numbers[-1]
        assert common_types(files)["a"] == widest
    else:
        with pytest.raises(ArchiveError, match="column 'a' was archived as"):
            common_types(files)
        assert common_types(files, []) == {"ts": "TIMESTAMP"}


@pytest.mark.parametrize("stored", KINDS)
@pytest.mark.parametrize("wanted", KINDS)
def test_only_numbers_are_read_as_others(stored: str, wanted: str) -> None:
    exact = {("INT", "BIGINT"), ("INT", "DOUBLE"), ("BIGINT", "DOUBLE"), ("BIGINT", "INT")}
    assert is_readable(stored, wanted) == (stored == wanted or (stored, wanted) in exact)


def test_a_column_that_no_file_has_is_no_mistake() -> None:
    check_types([file(1, a="INT")], {"b": "STRING", "a": "BIGINT"})
    assert common_types([file(1, a="INT"), file(2, b="STRING")]) == {"ts": "TIMESTAMP", "a": "INT", "b": "STRING"}
