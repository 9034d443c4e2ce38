"""The map side against plain Python: one interval or many, any filter, with keys and without."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.jobs.plan import Plan
from elf.cbt.schema import INTERVAL
from tests.agents.plans import events, plan_of

WINDOW = "window(ts, '1 second')"
PLANS: dict[tuple[str, bool], Plan] = {
    (where, keyed): plan_of(
        f"SELECT count(*) AS n FROM clicks WHERE {where} GROUP BY {'product, ' if keyed else ''}{WINDOW}"
    )
    for where in ("true", "false", "cents > 5", "cents > 5 OR product = 'a'", "product IS NULL")
    for keyed in (True, False)
}
ROWS = st.lists(
    st.tuples(st.integers(0, 2_500), st.sampled_from(["a", "b", None]), st.sampled_from([None, 1, 6, 9])), max_size=8
)


def meets(where: str, product: str | None, cents: int | None) -> bool:
    large = cents is not None and cents > 5
    return {
        "true": True,
        "false": False,
        "cents > 5": large,
        "cents > 5 OR product = 'a'": large or product == "a",
        "product IS NULL": product is None,
    }[where]


@settings(max_examples=150)
@given(ROWS, st.sampled_from(sorted(PLANS)), st.sampled_from([1, 1_000_000]))
def test_every_wanted_event_is_in_the_pao_of_its_interval_and_key(
    rows: list[tuple[int, str | None, int | None]], chosen: tuple[str, bool], divisor: int
) -> None:
    # Divided by a million, all events lie in one interval.
    rows = [(ts // divisor, product, cents) for ts, product, cents in rows]
    where, keyed = chosen
    expected = Counter(
        (ts // 1_000, product if keyed else None) for ts, product, cents in rows if meets(where, product, cents)
    )
    plan = PLANS[chosen]
    paos = plan.reduce(events(rows))
    assert dict(paos.schema) == dict(plan.schema.columns)
    state = paos.columns[-1]
    names = paos["k0"].to_list() if keyed else [None] * paos.height
    assert dict(zip(zip(paos[INTERVAL], names, strict=True), paos[state], strict=True)) == expected


@pytest.mark.parametrize("seconds", [(0, 0), (0, 1)])
def test_distinct_keys_without_aggregates(seconds: tuple[int, int]) -> None:
    plan = plan_of(f"SELECT product FROM clicks GROUP BY product, {WINDOW}")
    paos = plan.reduce(events([(second * 1_000, "a", None) for second in seconds]))
    assert sorted(paos.rows()) == sorted({(second, "a") for second in seconds})


@pytest.mark.parametrize("seconds", [(0, 0), (0, 1)])
def test_windows_alone_without_keys_and_aggregates(seconds: tuple[int, int]) -> None:
    plan = plan_of(f"SELECT 1 AS one FROM clicks GROUP BY {WINDOW}")
    paos = plan.reduce(events([(second * 1_000, "a", None) for second in seconds]))
    assert sorted(paos.rows()) == sorted({(second,) for second in seconds})
