"""A window that differs is asked for again: what was revised meanwhile is compared anew."""

from __future__ import annotations

from typing import Any

import pytest

from elf.offline.verify.outcomes import compared
from elf.offline.verify.published import Result
from elf.offline.verify.rows import OfflineRows

SPARK = OfflineRows(("n",), ("bigint",), (), [(5,)], [()], None)


def result(count: int, revision: int = 0, **changed: Any) -> Result:
    label = {"status": "final" if revision == 0 else "revised", "revision": revision}
    return {"columns": [{"name": "n", "type": "BIGINT"}], "rows": [{"n": count}], "completeness": label, **changed}


def test_what_agrees_is_not_asked_for_again() -> None:
    def again() -> Result:
        raise AssertionError

    assert not compared(result(5), SPARK, again).differences


@pytest.mark.parametrize(
    ("newer", "agrees"),
    [
        (result(5, 1), True),
        (result(6, 1), False),
        (result(5, 0), False),
        (result(5, 1, version=2), False),
        (result(5, completeness={"status": "open", "revision": 1}), False),
        (None, False),
    ],
    ids=["revised", "revised and wrong", "same label", "another version", "open again", "nobody to ask"],
)
def test_a_revision_counts_where_it_shows_in_the_label(newer: Result | None, agrees: bool) -> None:
    found = compared(result(4), SPARK, lambda: newer)
    assert (not found.differences) == agrees
    taken = agrees or (newer is not None and newer["rows"] == [{"n": 6}])
    assert found.result == (newer if taken else result(4))
