"""Taking the escapes out of URLs: nothing fails, and rubbish neither costs much nor touches its neighbours."""

from __future__ import annotations

from urllib.parse import unquote_plus

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.language.functions.url_escapes import decode

ESCAPES = st.from_regex(r"(%[0-9A-Fa-f]{2}|[a-z+/=?])*", fullmatch=True)
TEXTS = st.text(max_size=12) | ESCAPES | st.text(alphabet="%0aF+é-", max_size=8) | st.none()


@given(st.lists(TEXTS, max_size=12))
def test_each_text_is_decoded_as_if_it_were_alone(texts: list[str | None]) -> None:
    alone = [decode(pl.Series([text], dtype=pl.String))[0] for text in texts]
    assert decode(pl.Series("u", texts, dtype=pl.String)).to_list() == alone


@given(st.lists(ESCAPES, max_size=12))
def test_escapes_that_are_whole_are_decoded_as_python_does(texts: list[str]) -> None:
    # But for halves of surrogate pairs, of which Python makes several characters.
    texts = [text for text in texts if "%ed" not in text.lower()]
    assert decode(pl.Series(texts, dtype=pl.String)).to_list() == [unquote_plus(text) for text in texts]


def test_broken_escapes_are_null() -> None:
    texts = ["%", "a%", "%4", "%zz", "%%41", "%4g", "100%", "%é1", "%4é", "%-1", "% 41"]
    assert decode(pl.Series(texts)).to_list() == [None] * len(texts)


def test_a_character_of_two_texts_is_in_neither() -> None:
    """All texts together are UTF-8, and none of these is."""
    assert decode(pl.Series(["a%dc", "%85b", "%e2", "%82", "%ac"])).to_list() == [
        "a\ufffd", "\ufffdb", "\ufffd", "\ufffd", "\ufffd",
    ]  # fmt: skip


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    texts = ["%E4", "a=%E4%20b", "%E4%B8", "%ED%A0%80", "%F0%9F%98", "%C3%A9%C3", "%ff%FE"]
    assert decode(pl.Series(texts)).to_list() == [
        "\ufffd", "a=\ufffd b", "\ufffd", "\ufffd", "\ufffd", "é\ufffd", "\ufffd\ufffd",
    ]  # fmt: skip
