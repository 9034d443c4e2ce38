"""Whatever another program answers is of the declared type, or refused."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.extensions.signed.answers import typed
from elf.agents.extensions.signed.process import GaveUpError
from elf.agents.language.types import SqlType

ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=3) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=1), inner, max_size=2),
    max_leaves=3,
)


@given(st.lists(ANSWERS, min_size=1, max_size=4), st.sampled_from(list(SqlType)))
def test_whatever_comes_back_is_of_the_type_or_refused(answers: list[Any], kind: SqlType) -> None:
    try:
        column = typed(answers, kind)
    except GaveUpError:
        return
    assert (column.dtype, column.len(), len(column.to_list())) == (kind.dtype, len(answers), len(answers))
