"""Columns that are looked up in dictionaries are what each value would have given by itself."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elf.agents.language.codes import is_coded, text_of
from elf.agents.sources import arrow, dictionaries
from elf.agents.sources.dictionaries import Dictionaries
from elf.agents.sources.layouts.twin import Twin
from elf.agents.sources.native import Spans
from tests.agents.sources.native.test_dictionary import block_of

TEXTS = st.lists(st.none() | st.sampled_from(["", "a", "ab", "\u00e9" * 9]) | st.text(max_size=12), max_size=30)


def _make(block: bytes, spans: Spans) -> pl.Series:
    return arrow.texts("", len(spans), partial(Twin().gather, block, spans))


def _first_halves(block: bytes, spans: Spans) -> Spans:
    """Find the first character of each value; of an empty one nothing."""
    found = np.full_like(spans, -1)
    for row, (begin, end) in enumerate(spans.tolist()):
        if begin < end:
            found[row] = begin, begin + len(block[begin:end].decode()[0].encode())
    return found


def _redacted(column: pl.Series) -> pl.Series:
    """Blur texts with an a in them, and leave out those with a b."""
    blurred = column.str.replace_all("^.*a.*$", "***")
    return blurred.set(column.str.contains("b").fill_null(False), None)


def _all(coded: Dictionaries, texts: list[str | None]) -> tuple[list[str | None], list[str | None]] | None:
    block, spans = block_of([None if text is None else text.encode() for text in texts])
    found = coded.coded("c", block, spans)
    if found is None:
        return None
    whole, part = found.column("c", _make), found.part("d", _first_halves, _make)
    assert part is not None
    assert is_coded(whole) and is_coded(part) and (whole.name, part.name) == ("c", "d")
    return text_of(whole).to_list(), text_of(part).to_list()


def _expected(texts: list[str | None]) -> tuple[list[str | None], list[str | None]]:
    firsts = [text[0] if text else None for text in texts]
    whole, part = (_redacted(pl.Series("c", each, dtype=pl.String)).to_list() for each in (texts, firsts))
    return whole, part


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXTS, max_size=8), st.sampled_from([4, 16, 1 << 16]), st.sampled_from([32, 1 << 20]))
def test_whatever_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch, blocks: list[list[str | None]], entries: int, room: int
) -> None:
    monkeypatch.setattr(dictionaries, "_ENTRIES", 2)
    monkeypatch.setattr(dictionaries, "_TEXT_BYTES", 8)
    monkeypatch.setattr(dictionaries, "ENTRIES_MAX", entries)
    monkeypatch.setattr(dictionaries, "TEXT_BYTES_MAX", room)
    coded = Dictionaries(_redacted)
    for texts in blocks:
        distinct = {text for text in texts if text is not None}
        found = _all(coded, texts)
        if found is None:
            is_small = len(distinct) <= entries and sum(len(text.encode()) for text in distinct) <= room
            assert not is_small or coded.has_given_up("c")
        else:
            assert found == _expected(texts)


def test_a_column_of_ever_new_values_has_no_dictionary_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionaries, "ENTRIES_MAX", 1024)
    coded = Dictionaries(_redacted)
    texts = [f"{number}" for number in range(4_000)]
    found = [_all(coded, texts[at : at + 500]) for at in range(0, 4_000, 500)]
    assert [each is None for each in found] == [False] * 4 + [True] * 4
    assert coded.has_given_up("c") and not coded.has_given_up("other")


def test_a_column_whose_values_come_again_keeps_dictionaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionaries, "ENTRIES_MAX", 1024)
    coded = Dictionaries(_redacted)
    for at in range(0, 8_000, 500):
        texts: list[str | None] = [f"{number}" for number in range(at, at + 500)] * 5
        assert _all(coded, texts) == _expected(texts)
    assert not coded.has_given_up("c")


def test_values_are_redacted_once() -> None:
    seen: list[str | None] = []

    def redacted(column: pl.Series) -> pl.Series:
        seen.extend(column)
        return column

    coded = Dictionaries(redacted)
    for texts in (["a", "b", None, "a"], ["b", "c"]):
        block, spans = block_of([None if text is None else text.encode() for text in texts])
        found = coded.coded("c", block, spans)
        assert found is not None and text_of(found.column("c", _make)).to_list() == texts
    assert seen == ["a", "b", "c"]
