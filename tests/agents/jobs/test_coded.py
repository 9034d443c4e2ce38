"""A plan makes the same PAOs of codes as of texts, whatever it reads of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from elf.agents.jobs.coded import conditions_of
from elf.agents.jobs.plan import Plan, syntax_of
from elf.agents.language.codes import Codes, is_coded
from elf.agents.language.query import parse_query
from elf.agents.language.scopes import RowScope
from tests.agents.plans import COLUMNS, events, plan_of

CONDITIONS = (
    "true",
    "false",
    "product = 'a'",
    "product <> 'a'",
    "product IN ('a', 'b')",
    "NOT (product = 'a' OR product IS NULL)",
    "product LIKE '%b%'",
    "upper(product) = 'A'",
    "product = 'a' AND cents > 5",
    "product = 'a' AND product LIKE 'a%'",
    "(product = 'ab' OR cents > 5) AND product IS NOT NULL",
    "product > 'a'",
    "product = cents",
    "product = '5' AND true",
)
GROUPS = ("product", "upper(product)", "product, length(product)", "cents")
ITEMS = ("count(*)", "max(product)", "count(distinct product)", "sum(cents)")
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2_500), st.sampled_from(["a", "b", "ab", "", "5", None]), st.sampled_from([None, 1, 5, 9])
    ),
    max_size=12,
)


def _plan(where: str, group: str, item: str) -> Plan:
    return plan_of(f"SELECT {item} AS n FROM clicks WHERE {where} GROUP BY {group}, window(ts, '1 second')")


@settings(max_examples=200)
@given(st.lists(ROWS, min_size=1, max_size=3), st.tuples(*map(st.sampled_from, (CONDITIONS, GROUPS, ITEMS))))
def test_codes_and_texts_give_the_same(
    parts: list[Sequence[tuple[int, str | None, int | None]]], of: tuple[str, str, str]
) -> None:
    plan, codes = _plan(*of), Codes()
    for rows in parts:
        frame = events(list(rows))
        coded = frame.with_columns(codes.of(frame["product"]))
        assert is_coded(coded["product"])
        made = plan.reduce(coded)
        assert made.schema == plan.schema.columns
        keys = [*plan.schema.key_names, *(name for name in made.columns if name not in plan.schema.key_names)]
        one, other = (paos.select(keys).sort(keys) for paos in (made, plan.reduce(frame)))
        assert_frame_equal(one, other)


@pytest.mark.parametrize(
    ("where", "safe"),
    [
        ("product = 'a'", [True]),
        ("product = 'a' AND 'b' <> product AND cents = 5", [True, True, False]),
        ("(product LIKE '%a' OR product IS NULL) AND NOT (product IN ('a', 'b'))", [True, True]),
        ("upper(product) = 'A' AND product = 5 AND product = product", [False, False, True]),
    ],
)
def test_which_conditions_are_looked_up(where: str, safe: list[bool]) -> None:
    plan = _plan(where, "cents", "count(*)")
    filter = syntax_of(plan).where
    assert filter is not None
    rows = RowScope(parse_query(plan.definition.query), COLUMNS)
    assert [each.is_safe for each in conditions_of(filter, rows)] == safe
