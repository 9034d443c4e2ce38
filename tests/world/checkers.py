"""Holds what agents answered to what was done to them. Pure; knows what docs/RESULTS.md promises, not how it is kept.

- No event is ever counted twice, nor one that was never pushed, nor in a window that is not its own.
- `final` and `revised` windows have every event that its agent had acknowledged before it could seal the window.
- `final_incomplete` ones say what they lack: all events of agents that are not named are there, unless there are gaps.
- Rows change with the revision only, and no master's revision falls.
- In the end all windows are closed, and have every event that no lost disk took; where nothing befell disks and clocks
  all are complete.
- An archive has every event that its agent has acknowledged, once; none twice even where a disk was lost.
- All agents know one order of a job's versions; a term of a job's root group has one leader.

Each check returns sentences about what is wrong, none when all is well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tests.world.truth import COMPLETE, Answer, Event, JobPlan, Truth

#: Sentences of one check: a broken promise has one cause and a hundred symptoms.
SENTENCES_MAX = 10
#: A job is known to all agents so long after it was published, faults aside; a worker begins with the next line then.
SPREAD_S = 5.0


def check_all(truth: Truth) -> list[str]:
    """Check a run that has ended."""
    checks = (check_counts, check_labels, check_revisions, check_end, check_versions, check_leaders)
    return [sentence for check in checks for sentence in check(truth)]


def check_counts(truth: Truth) -> list[str]:
    """Check that nothing was counted twice, or that never happened, whatever the labels say."""
    wrong = [why for job, _, events, seen in truth.by_window() for each in seen for why in _excess(job, each, events)]
    return wrong[:SENTENCES_MAX]


def _excess(job: JobPlan, answer: Answer, events: Sequence[Event]) -> Iterator[str]:
    known = {event.number: event for event in events}
    for number, (host, count) in answer.rows.items():
        if number not in known or known[number].host != host:
            yield f"{answer}: event {number} of {host} was counted, which was not pushed there in this window"
        elif count != 1:
            yield f"{answer}: event {number} of {host} was counted {count} times"


def check_labels(truth: Truth) -> list[str]:
    """Check that no label claims too much."""
    wrong = [
        why for job, _, events, seen in truth.by_window() for each in seen for why in _claimed(truth, job, each, events)
    ]
    return wrong[:SENTENCES_MAX]


def _claimed(truth: Truth, job: JobPlan, answer: Answer, events: Sequence[Event]) -> Iterator[str]:
    if answer.status == "open":
        return
    reasons = bool(answer.missing or answer.gaps or answer.void)
    if answer.status in COMPLETE and reasons:
        yield f"{answer}: complete, although it says what is missing"
    # One side's may lack nothing, which nobody there can know.
    if answer.status not in (*COMPLETE, "partial") and not reasons:
        yield f"{answer}: incomplete, and it does not say what is missing"
    if answer.gaps or answer.void:
        return  # these do not say whose
    for event in _lacking(answer, events):
        if truth.is_unexpected(event, job):
            continue
        if event.is_due(job) and event.host not in answer.missing and (event.acked_s or 0.0) <= answer.answered_s:
            yield f"{answer}: event {event.number} of {event.host}, acknowledged at {event.acked_s:.2f} s, is not in it"


def _lacking(answer: Answer, events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event.acked_s is not None and event.number not in answer.rows]


def check_revisions(truth: Truth) -> list[str]:
    """Check that a window's answer changes with its revision only, and that no master's revision falls."""
    wrong: list[str] = []
    for _, _, _, seen in truth.by_window():
        first: dict[int, Answer] = {}
        for answer in seen:
            # Each side of a split counts its own revisions.
            if answer.status in ("open", "partial"):
                continue
            same = first.setdefault(answer.revision, answer)
            if (same.rows, same.version) != (answer.rows, answer.version):
                wrong.append(f"{answer}: other rows than {same}")
            if any(_is_later(each, answer) for each in first.values()):
                wrong.append(f"{answer}: its revision has fallen")
    return wrong[:SENTENCES_MAX]


def _is_later(known: Answer, answer: Answer) -> bool:
    """Tell whether the same master knew a later revision before: one that is deposed may not know it yet."""
    before = known.answered_s < answer.asked_s and known.revision > answer.revision
    return before and bool(answer.master) and known.master == answer.master


def check_end(truth: Truth) -> list[str]:
    """Check that every event is counted in the end, unless a lost disk took it or the job drops it, as labels say."""
    wrong: list[str] = []
    for job, start_ms, events, seen in truth.by_window():
        if not events:
            continue
        if seen and seen[-1].status == "partial":
            wrong.append(f"{seen[-1]}: one side's, although the network is whole")
        elif not seen or seen[-1].status == "open":
            wrong.append(f"{job.name} [{start_ms}): it was never closed")
            continue
        last, began_s = seen[-1], truth.published_s[job.name] + SPREAD_S
        is_whole = all(event.pushed_s > began_s for event in events) and not truth.is_joined_in(job, start_ms)
        if last.status not in COMPLETE and not truth.doubtful and not job.drops and is_whole:
            wrong.append(f"{last}: this is how it ended, although no disk was lost and no clock set")
        for event in _lacking(last, events):
            if truth.is_beyond_labels(event, job) or (event.host in truth.gone and truth.is_given_up(event, job)):
                continue
            named = event.host in last.missing or last.gaps or last.void
            # A new agent takes up its jobs one after the other, and reads its lines for those that it has.
            excused = event.lost or job.drops or event.pushed_s <= began_s or event.host in truth.lost_ms
            excused = excused or truth.is_unexpected(event, job)
            if not (named and excused):
                wrong.append(f"{last}: event {event.number} of {event.host} is not in it, and this is how it ended")
    return wrong[:SENTENCES_MAX]


def check_archive(truth: Truth, source: str, host: str, archived: Sequence[int]) -> list[str]:
    """Check that a host's archive of a source, given as the numbers of its events, is what its agent had."""
    counts = Counter(archived)
    wrong = [f"the archive of {host} has event {number} {count} times" for number, count in counts.items() if count > 1]
    own = {event.number: event for event in truth.events.values() if (event.source, event.host) == (source, host)}
    wrong += [f"the archive of {host} has event {number}, which is not its" for number in counts if number not in own]
    # A new disk's agent reads no file that the log was rotated to before.
    due = own.values() if host not in truth.lost_ms else ()
    wrong += [
        f"the archive of {host} lacks event {event.number}, acknowledged at {event.acked_s:.2f} s"
        for event in due
        if event.acked_s is not None and event.number not in counts
    ]
    return wrong[:SENTENCES_MAX]


def check_versions(truth: Truth) -> list[str]:
    """Check that all agents, at all times, know the same versions of a publication by the same numbers."""
    wrong: list[str] = []
    first: dict[tuple[str, int], tuple[str, str]] = {}
    for known in truth.known:
        for number, made in known.versions.items():
            host, other = first.setdefault((known.publication, number), (known.host, made))
            if other != made:
                wrong.append(f"{known.host} knows another version {number} of {known.job} than {host}")
    return wrong[:SENTENCES_MAX]


def check_leaders(truth: Truth) -> list[str]:
    """Check that no term of a root group has two leaders."""
    wrong: list[str] = []
    first: dict[tuple[str, int], str] = {}
    for known in truth.known:
        if known.term is not None and known.leader is not None:
            leader = first.setdefault((known.publication, known.term), known.leader)
            if leader != known.leader:
                wrong.append(f"{known.host} takes {known.leader} for the leader of term {known.term}, not {leader}")
    return wrong[:SENTENCES_MAX]
