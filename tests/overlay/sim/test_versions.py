"""Versions of a simulated job: one order, frozen pasts, and nobody late whom the label does not name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.contract import NEVER
from elf.overlay.sim.payloads import Row, pack, read, read_told, row_of, told, unpack
from elf.overlay.sim.version_checkers import check_order
from elf.overlay.sim.versions import (
    FIRST,
    Version,
    What,
    boundaries,
    counts,
    late,
    next_version,
    taken_up,
    turns,
    version_at,
    with_version,
)

WHATS: tuple[What, ...] = ("update", "touch", "reset")
#: What is asked for, by which clock, how far what is committed has come since, and how far behind the proposal is.
STEPS = st.lists(st.tuples(st.sampled_from(WHATS), st.integers(-9, 9), st.integers(0, 4), st.booleans()), max_size=12)


def decided(steps: list[tuple[What, int, int, bool]]) -> tuple[tuple[Version, ...], list[tuple[int, Version]]]:
    """Decide versions one after the other; returns them, and for each interval committed the version it had then."""
    versions, committed, counted = FIRST, 0, list[tuple[int, Version]]()
    for number, (what, off, moved, is_stale) in enumerate(steps):
        known = versions[:-1] if is_stale and len(versions) > 1 else versions
        version = next_version(known, what, f"{number}", committed + off, number)
        changed = with_version(versions, version, committed)
        assert (changed is None) == (known != versions), "a number that is taken is not taken again"
        versions = changed or versions
        counted += [(at, version_at(versions, at)) for at in range(committed + 1, committed + moved + 1)]
        committed += moved
    return versions, counted


@given(STEPS)
def test_what_is_committed_keeps_its_version_whatever_is_decided_later(
    steps: list[tuple[What, int, int, bool]],
) -> None:
    versions, counted = decided(steps)
    assert check_order(versions, {"all": versions}) == []
    assert all(version_at(versions, at) == version for at, version in counted)


@given(STEPS, st.integers(0, 12), st.integers(0, 40), st.integers(0, 40))
def test_whoever_reads_by_an_older_version_is_late_where_that_matters_and_nowhere_else(
    steps: list[tuple[What, int, int, bool]], knows: int, unread: int, interval: int
) -> None:
    versions, _ = decided(steps)
    old = versions[: min(knows, len(versions) - 1) + 1]
    # It has read everything before `unread` by the old versions, and reads the rest by all of them.
    kind = version_at(old if interval < unread else versions, interval).kind
    since = {number: {"a": at} for number, at in taken_up({}, FIRST[0], old, None).items()}
    since |= {number: {"a": at} for number, at in taken_up({}, old[-1], versions, unread).items()}
    assert counts(versions, kind, interval) or late(versions, since, ["a"], interval) == {"a"}
    if interval >= unread:
        assert late(versions, since, ["a"], interval) == set()
    silent = late(versions, {}, ["a"], interval)
    assert silent == ({"a"} if version_at(versions, interval).kind else set()), "nobody knows until it is told"


@given(STEPS, st.integers(-3, 30), st.integers(0, 20))
def test_windows_begin_anew_once_however_a_run_is_divided(
    steps: list[tuple[What, int, int, bool]], after: int, length: int
) -> None:
    versions, _ = decided(steps)
    whole = turns(versions, after, after + length)
    assert whole == sorted(set(whole))
    assert whole == [at for one in range(after, after + length) for at in turns(versions, one, one + 1)]
    assert set(whole) <= {*boundaries(versions, after, after + length), after + 1}


def test_a_touch_keeps_windows_and_rows_and_is_told_by_nobody() -> None:
    versions = FIRST
    for what in ("reset", "touch"):
        changed = with_version(versions, next_version(versions, what, what, 10, 0), NEVER)
        assert changed is not None
        versions = changed
    reset, touch = versions[1:]
    assert (touch.kind, touch.begins) == (reset.kind, reset.begins) == (1, 12)
    assert reset.is_told and not touch.is_told and not FIRST[0].is_told


def test_the_order_is_held_to_what_was_decided() -> None:
    versions = FIRST
    for asked in ("a", "b"):
        versions = with_version(versions, next_version(versions, "update", asked, 0, 0), NEVER) or versions
    first, one, two = versions
    assert check_order(versions, {"a": versions[:2], "b": versions}) == []
    assert "knows other versions" in check_order(versions, {"c": (first, two)})[0]
    assert "follows version" in check_order((first, two), {})[0]
    assert "one question" in check_order((first, one, Version(number=2, since=2, begins=2, asked="a")), {})[0]
    assert "before version" in check_order((first, one, Version(number=2, since=1, begins=1, asked="c")), {})[0]


def test_rows_and_notes_travel_together_and_bare_items_are_of_the_first_kind() -> None:
    row = Row("a.1#3", 3, 2)
    payload = pack([*told("a.1", {2: 3, 5: -1}), row.text, "bare"])
    assert unpack(payload) == ["a.1#3", "bare"]
    assert list(read_told(payload)) == [("a.1", 2, 3), ("a.1", 5, -1)]
    assert [row_of(text, 9) for text in read(payload) if not text.startswith("=")] == [row, Row("bare", 9, 0)]
