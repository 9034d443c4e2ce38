"""Windows of a job whose intervals become longer and shorter: all that are told of are whole, and none is left out."""

from __future__ import annotations

import pathlib
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.errors import JobError
from elf.agents.jobs.plan import compile_job
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.master.emission import Batch, joined
from elf.agents.master.epochs import epochs, latest
from elf.agents.master.results import Span
from elf.overlay.contract import NEVER
from tests.agents.master.backfilled import Job
from tests.agents.plans import COLUMNS, WINDOWED, plan_of

#: Intervals of 2 s, 3 s, 1 s, and 1 s again.
WINDOWS = ("'4 seconds', '2 seconds'", "'3 seconds'", "'5 seconds', '1 second'", "'4 seconds', '3 seconds'")
changes = st.lists(st.tuples(st.sampled_from(WINDOWS), st.integers(0, 12)), min_size=1, max_size=4)


def versions_of(*drawn: tuple[str, int]) -> Versions:
    """Versions of which each has a window, and begins so many intervals after the one before, or soon after that."""
    first = plan_of()
    made, since = [Compiled(Version(number=1, definition=first.definition), first)], 0
    for number, (window, later) in enumerate(drawn, start=2):
        plan, before = plan_of(WINDOWED.replace(WINDOWS[0], window)), made[-1]
        since, shift = before.plan.numbering.followed_by(plan.interval_ms, since + later)
        same = plan.interval_ms == before.plan.interval_ms
        plan = compile_job(replace(plan.definition, shift=shift, version=number), COLUMNS)
        begins, kind = (before.version.begins, before.version.pao_kind) if same else (since, number)
        version = Version(
            number=number, definition=plan.definition, what="update", since=since, begins=begins, pao_kind=kind
        )
        made.append(Compiled(version, plan))
    return Versions(made)


def ended(versions: Versions, after_ms: int, through_ms: int, last: int) -> list[Span]:
    """The windows that end within (after_ms, through_ms], by those who count as many intervals as `last` by then."""
    runs = [run for run in versions.runs() if run.first <= last]
    found = []
    for end_ms in range(after_ms + 1_000, through_ms + 1, 1_000):
        now = next(each for each in runs if each.span_ms[0] < end_ms <= each.span_ms[1])
        # Windows are those of the last version that has intervals of this length.
        alike = [each for each in runs if each.plan.numbering == now.plan.numbering]
        window = alike[-1].plan.window
        assert window is not None
        if (end_ms - window.size_ms) % window.slide_ms == 0:
            found.append(Span(end_ms - window.size_ms, end_ms))
    return found


@settings(max_examples=60)
@given(changes, st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=12))
def test_a_follower_is_sent_each_window_once_and_all_are_whole(
    drawn: list[tuple[str, int]], steps: list[tuple[int, bool]]
) -> None:
    versions = versions_of(*drawn)
    with tempfile.TemporaryDirectory() as folder, Job(pathlib.Path(folder), versions) as job:
        through, edition, after_ms = -1, -1, 0
        for length, reads in steps:
            rows = [(at, "x") for at in range(through + 1, through + length + 1)]
            through += length
            job.commit(through, rows, begun=None)
            through_ms = job.master.windows.through_ms
            assert through_ms == versions.end_ms(through)
            if not reads:
                continue
            # The first pane's run has no beginning; it ends with the first commit, or before the first change.
            first = min([steps[0][0], *versions.boundaries(NEVER, steps[0][0] - 1)]) - 1
            due = ended(versions, max(after_ms, versions.start_ms(first)), through_ms, through + 1)
            newest = job.master.windows.latest()
            assert newest is not None and (not due or newest == due[-1])
            spans, changed, closed = job.master.windows.news(edition, after_ms, 1_000)
            assert spans == (due or [newest] if edition < 0 else due) and not changed.spans and closed.rest is None
            for span in {*spans, newest}:
                result = job.master.windows.result(span, None, None, str)
                by = versions.numbered(result.version)
                assert by is not None
                first, last = versions.within(span.start_ms, span.end_ms)
                counted = range(max(first, by.version.begins, 0), last + 1)
                assert [row["n"] for row in result.rows] == ([len(counted)] if counted else [])
            edition, after_ms = job.master.windows.edition, through_ms


def test_a_window_that_cuts_an_interval_is_refused(tmp_path: pathlib.Path) -> None:
    versions = versions_of((WINDOWS[1], 3))
    with Job(tmp_path, versions) as job:
        job.commit(5, [(at, "x") for at in range(6)], begun=None)
        assert versions.start_ms(3) == 6_000 and job.master.windows.through_ms == 15_000
        for start_ms, end_ms, length in ((1_000, 4_000, 2), (2_000, 5_000, 2), (6_000, 8_000, 3), (4_000, 9_000, 3)):
            why = f"made of whole intervals of {length} seconds, .* 1970-01-01T00:00:0{start_ms // 1_000}Z/"
            with pytest.raises(JobError, match=why):
                job.master.windows.share(Span(start_ms, end_ms), None, None, str)
        for span, number in ((Span(2_000, 6_000), 1), (Span(3_000, 9_000), 2)):
            assert job.master.windows.share(span, None, None, str).plan.definition.version == number


def test_what_is_late_is_told_of_in_windows_of_its_time(tmp_path: pathlib.Path) -> None:
    versions = versions_of((WINDOWS[1], 3))
    with Job(tmp_path, versions) as job:
        for at in range(6):
            job.commit(at, [(at, "x")], begun=None)
        edition = job.master.windows.edition
        job.commit(6, [(2, "late"), (4, "late")], begun=None)
        spans, changed, closed = job.master.windows.news(edition, 15_000, 20)
        assert changed.spans == [Span(2_000, 6_000), Span(9_000, 12_000)] and closed.spans == [Span(15_000, 18_000)]
        assert spans == [*changed.spans, *closed.spans]
        assert job.master.windows.news(edition, 15_000, 1)[1] == Batch([Span(9_000, 12_000)], Span(2_000, 6_000), 1)


def test_batches_become_one_of_the_newest() -> None:
    first = Batch([Span(2, 3), Span(3, 4)], Span(0, 2), 2)
    second = Batch([Span(4, 6), Span(6, 8)])
    assert joined([first], 1) == first
    assert joined([first, second], 9) == Batch([*first.spans, *second.spans], Span(0, 2), 2)
    assert joined([first, second], 3) == Batch([Span(3, 4), *second.spans], Span(0, 3), 3)
    assert joined([first, second], 1) == Batch([Span(6, 8)], Span(0, 6), 5)
    assert joined([second, Batch([])], 9) == second


def test_a_job_that_was_never_changed_so_has_one_epoch() -> None:
    versions = versions_of((WINDOWS[0], 3), (WINDOWS[1], 3))
    assert [len(epochs(versions, at)) for at in (0, 3, 5, 6)] == [1, 1, 1, 2]
    assert latest(epochs(Versions.of(plan_of(WINDOWED.replace(f", window(ts, {WINDOWS[0]})", ""))), 3), 9) is None
