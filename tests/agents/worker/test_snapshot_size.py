"""What does not fit into one snapshot comes with later ones: in order, whole, and under labels that say so."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.jobs.versions import Versions
from elf.agents.worker import snapshot_size
from elf.agents.worker.paos import Paos
from elf.agents.worker.payload import Notes
from elf.agents.worker.snapshot_size import fit, late_brought
from elf.agents.worker.worker import Worker
from elf.cbt import INTERVAL
from elf.overlay.contract import NEVER, Verdict
from tests.agents.plans import CUMULATIVE, events, opened, plan_of

PLAN = plan_of()
VERSIONS = Versions.of(PLAN)


def rows_of(counts: dict[int, int]) -> Paos:
    """PAOs with so many keys in each interval, in the order given."""
    worker, frames = Worker(PLAN, "w1"), [PLAN.schema.empty()]
    for interval, count in counts.items():
        worker.insert(events([(2_000 * interval, f"{interval}-{number}", 1) for number in range(count)]))
    (*snapshots,) = worker.seal(10**9)
    found = {snapshot.through: opened(snapshot.payload, PLAN)[1] for snapshot in snapshots if snapshot.payload}
    return Paos([(0, pl.concat([*frames, *(found[interval] for interval, count in counts.items() if count)]))])


def test_what_fits_goes_at_once() -> None:
    rows = rows_of({9: 2, 1: 3})
    fitted = fit(Notes(late=3), "w1", ((0, 4),), rows, 2)
    assert fitted.payload is not None and fitted.rest.height == 0
    assert (fitted.owed, fitted.gaps) == ((), ())
    notes, frame = opened(fitted.payload, PLAN)
    assert (notes.settles, notes.late, frame.height) == ({"w1": ((0, 4),)}, 3, 5)
    assert fit(Notes(), "w1", (), rows.head(0), 0).payload is None


@settings(max_examples=60)
@given(
    now=st.integers(0, 40),
    late=st.lists(st.integers(0, 25), max_size=6),
    owed=st.sampled_from([(), ((0, 6),), ((0, 2), (3, 5))]),
    bytes_max=st.integers(120, 900),
)
def test_all_rows_leave_in_order_and_no_interval_is_settled_before(
    now: int, late: list[int], owed: tuple[tuple[int, int], ...], bytes_max: int
) -> None:
    rows = rows_of({9: now} | dict(enumerate(late, start=1)))
    wanted = sorted(rows.by_kind()[0]["k0"].to_list())
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_size, "SNAPSHOT_BYTES_MAX", bytes_max)
        rounds, sealed_now, gaps = 0, now, ()
        while True:
            fitted = fit(Notes(gaps=gaps), "w1", owed, rows, sealed_now)
            assert fitted.payload is None or len(fitted.payload) <= bytes_max or fitted.rest.height == rows.height
            if fitted.rest.height == rows.height and rows.height:
                return  # not even a single row fits beside the notes
            notes, frame = (Notes(), PLAN.schema.empty()) if fitted.payload is None else opened(fitted.payload, PLAN)
            seen += frame["k0"].to_list()
            waiting = set(fitted.rest.intervals)
            brought = {each for after, through in notes.settles.get("w1", ()) for each in range(after + 1, through + 1)}
            assert not brought & waiting, "an interval is settled by the snapshot that has its last row"
            gap = {first for first, _ in notes.gaps}
            assert {each for each in waiting if each in set(frame[INTERVAL])} <= gap, "a part alone is a gap"
            rows, owed, gaps, sealed_now = fitted.rest, fitted.owed, fitted.gaps, 0
            rounds += 1
            if not rows.height:
                break
    assert sorted(seen) == wanted and not owed


def test_an_agent_that_was_away_for_long_brings_all_of_it_with_several_snapshots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot_size, "SNAPSHOT_BYTES_MAX", 2_000)
    worker = Worker(PLAN, "w1")
    lines = [(interval * 2_000, f"{interval}-{number}", 1) for interval in range(40) for number in range(20)]
    worker.insert(events(lines))
    missed = worker.seal(80_000)
    worker.settle(Verdict(previous=NEVER, through=39, missing=True), missed)
    seen: set[str] = set()
    brought = NEVER
    for interval in range(40, 60):
        worker.insert(events([(interval * 2_000, f"{interval}", 1)]))
        for snapshot in worker.seal(2_000 * (interval + 1)):
            assert snapshot.payload is not None and len(snapshot.payload) <= 2_000
            notes, frame = opened(snapshot.payload, PLAN)
            assert f"{snapshot.through}" in set(frame["k0"]) and not notes.gaps
            seen.update(frame["k0"])
            for after, through in notes.settles.get("w1", ()):
                assert after == brought
                brought = through
    assert brought == 39 and {product for _, product, _ in lines} <= seen
    assert not worker.progress.owed


def test_what_was_committed_without_an_agent_is_late_for_it_though_it_never_sealed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot_size, "SNAPSHOT_BYTES_MAX", 900)
    worker = Worker(PLAN, "w1")
    worker.settle(Verdict(previous=NEVER, through=9, missing=True), ())
    worker.insert(events([(interval * 2_000, f"{interval}-{n}", 1) for interval in range(10) for n in range(20)]))
    snapshots = [snapshot for interval in range(10, 20) for snapshot in worker.seal(2_000 * (interval + 1))]
    payloads = [snapshot.payload for snapshot in snapshots if snapshot.payload is not None]
    assert len(payloads) > 1 and max(map(len, payloads)) <= 900
    notes, frames = zip(*(opened(payload, PLAN) for payload in payloads), strict=True)
    assert not any(each.gaps for each in notes) and not worker.progress.owed
    assert sorted(pl.concat(frames)["k0"]) == sorted(f"{interval}-{n}" for interval in range(10) for n in range(20))


@settings(deadline=None)
@given(st.sets(st.integers(-50, 99)), st.integers(0, 3))
def test_a_storm_of_late_events_comes_at_a_bounded_pace_each_once(late: set[int], most: int) -> None:
    worker, brought = Worker(PLAN, "w1"), []
    worker.seal(2_000 * 100)
    worker.insert(events([(interval * 2_000, "a", 1) for interval in late] + [(2_000 * 100, "now", 1)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_size, "LATE_MIN", 1)
        patch.setattr(snapshot_size, "LATE_PER_S", most)  # of intervals of 2 s
        for interval in range(100, 100 + 2 * len(late) + 1):
            for snapshot in worker.seal(2_000 * (interval + 1)):
                own = opened(snapshot.payload, PLAN)[1][INTERVAL].to_list() if snapshot.payload is not None else []
                behind = [each for each in own if each < snapshot.through and each != 100]
                assert len(behind) <= max(1, 2 * most)
                brought += behind
    assert brought == sorted(late)
    assert not list(worker.open)


def test_of_old_ones_very_many_come_at_a_time_and_of_a_job_without_window_all() -> None:
    now = 10**6
    old, retained = list(range(snapshot_size.LATE_OLD_MAX + 5)), list(range(now - 1_000, now))
    bound = max(snapshot_size.LATE_MIN, 2 * snapshot_size.LATE_PER_S)
    assert late_brought(retained, now, VERSIONS) == bound
    assert late_brought([*old[:9], *retained], now, VERSIONS) == 9 + bound
    assert late_brought(old, now, VERSIONS) == snapshot_size.LATE_OLD_MAX
    assert late_brought([], now, VERSIONS) == 0
    assert late_brought(retained, now, Versions.of(plan_of(CUMULATIVE))) == len(retained)
