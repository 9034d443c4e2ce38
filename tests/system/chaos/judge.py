"""Holds every answer of a run to the truth. Pure; knows what README promises and nothing of how elf keeps it.

- Nothing is ever counted twice, nor counted that never happened, whatever the label says.
- `final` and `revised` are exact, but for events that come late: those may come with a later revision.
  `final_incomplete` names who is missing; everybody else's events are all in it.
- An answer changes with its revision only, and the revision never falls.
- In the end every window is closed, exact and complete; a job that drops what came too late may end with a window that
  names whose.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

#: key -> count, sum, and in some jobs count of distinct, least, greatest.
Rows = Mapping[str, tuple[int, ...]]
#: Start of a window (ms) -> its rows.
Truth = Mapping[int, Rows]
COMPLETE = ("final", "revised")


@dataclass(frozen=True)
class Answer:
    """What one agent answered about one closed or open window; times on the reader's monotonic clock."""

    job: str
    start_ms: int
    rows: Rows
    status: str
    missing: tuple[str, ...]
    revision: int
    late: int
    via: str
    asked_s: float
    answered_s: float

    def __str__(self) -> str:
        label = f"{self.status} revision {self.revision} late {self.late} missing {','.join(self.missing) or '-'}"
        return f"{self.job} [{self.start_ms}) via {self.via} at {self.answered_s:.1f} s, {label}"


@dataclass
class Verdict:
    """What became of a run's windows; `wrong` has a sentence for each broken promise."""

    windows: int = 0
    answers: int = 0
    #: Right and complete whenever somebody looked after it had closed.
    exact: int = 0
    #: Seen with a label that named somebody as missing.
    incomplete: int = 0
    #: Seen incomplete, and exact in the end.
    corrected: int = 0
    #: Incomplete in the end, as their job wants it.
    dropped: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Promise:
    """What a job promises about all of its windows."""

    #: Window -> rows, of every window with events.
    truth: Truth
    #: Its keys are the names of the agents that have the events.
    keyed_by_agent: bool
    #: What an agent brings too late is dropped, not brought in later.
    drops: bool = False
    #: Keys of events that come late, and what their names have more than those of the agents that have them.
    late_keys: frozenset[str] = frozenset()
    late_suffix: str = ""

    def lacking(self, answer: Answer, *, complete: bool) -> Iterable[str]:
        """Name what is not there although the label says it is; with `complete` nothing is late any more."""
        truth = self.truth.get(answer.start_ms, {})
        if not complete:
            truth = {key: row for key, row in truth.items() if key not in self.late_keys}
        return _lacking(answer, truth, self.keyed_by_agent, self.late_suffix)

    def is_kept(self, answer: Answer) -> bool:
        """Tell whether an answer is what its window may end as."""
        rows = self.truth.get(answer.start_ms, {})
        if answer.status in COMPLETE or not self.drops:
            return answer.status in COMPLETE and answer.rows == rows
        return answer.status == "final_incomplete" and not list(self.lacking(answer, complete=True))


def judge(promises: Mapping[str, Promise], answers: Sequence[Answer], late: bool) -> Verdict:
    """Judge a run.

    Args:
        promises: what is promised of each job.
        answers: all that were seen, in any order.
        late: some events reached their log later than the jobs wait for, so that final results may be revised.
    """
    verdict = Verdict(answers=len(answers))
    by_window: dict[tuple[str, int], list[Answer]] = defaultdict(list)
    for answer in sorted(answers, key=lambda each: each.answered_s):
        by_window[answer.job, answer.start_ms].append(answer)
    for (job, start_ms), seen in by_window.items():
        promise = promises[job]
        rows = promise.truth.get(start_ms, {})
        for answer in seen:
            verdict.wrong += [f"{answer}: {why}" for why in _excess(answer.rows, rows)]
            if not late:
                verdict.wrong += [f"{answer}: {why}" for why in promise.lacking(answer, complete=False)]
        verdict.wrong += _inconsistent(seen)
    for job, promise in promises.items():
        for start_ms in sorted(promise.truth):
            _conclude(verdict, job, start_ms, promise, by_window.get((job, start_ms), []))
    return verdict


def _conclude(verdict: Verdict, job: str, start_ms: int, promise: Promise, seen: Sequence[Answer]) -> None:
    verdict.windows += 1
    if not seen or not promise.is_kept(seen[-1]):
        name, true = seen[-1] if seen else f"{job} [{start_ms})", dict(promise.truth[start_ms])
        verdict.wrong.append(f"{name}: this is how it ended; the truth is {true}")
        return
    closed = [answer for answer in seen if answer.status != "open"]
    incomplete = any(answer.missing for answer in closed)
    dropped = seen[-1].status not in COMPLETE
    verdict.exact += not incomplete
    verdict.incomplete += incomplete
    verdict.dropped += dropped
    verdict.corrected += incomplete and not dropped


def _excess(rows: Rows, truth: Rows) -> Iterable[str]:
    """Name what was counted twice, or never happened."""
    for key, row in rows.items():
        true = truth.get(key)
        if len(row) > 2 and row[0] != row[2]:
            yield f"{key}: {row[0]} counted, {row[2]} of them distinct"
        if true is None:
            yield f"{key}: {row} of a key that has no events"
        elif row[0] > true[0] or row[1] > true[1]:
            yield f"{key}: {row} is more than {true}"
        elif len(row) > 2 and (row[3] < true[3] or row[4] > true[4]):
            yield f"{key}: {row} has events that {true} has not"


def _lacking(answer: Answer, truth: Rows, keyed_by_agent: bool, suffix: str) -> Iterable[str]:
    """Name what is not there although the label says it is."""
    if answer.status == "open":
        return
    if answer.status in COMPLETE and answer.missing:
        yield "complete, and somebody is missing"
    names = set(answer.missing)
    if answer.status == "final_incomplete" and not names:
        yield "incomplete, and nobody is missing"
    if names and not keyed_by_agent:
        return
    for key, true in truth.items():
        if key.removesuffix(suffix) not in names and answer.rows.get(key) != true:
            yield f"{key}: {answer.rows.get(key)} instead of {true}"


def _inconsistent(seen: Sequence[Answer]) -> Iterable[str]:
    """Name answers, ascending in time, that changed with the same revision, or whose revision fell."""
    by_revision: dict[int, Answer] = {}
    for answer in seen:
        if answer.status == "open":
            continue
        first = by_revision.setdefault(answer.revision, answer)
        if first.rows != answer.rows:
            yield f"{answer}: other rows than {first}"
        before = [earlier for earlier in by_revision.values() if earlier.answered_s < answer.asked_s]
        newer = max(before, key=lambda each: each.revision, default=None)
        if newer is not None and newer.revision > answer.revision:
            yield f"{answer}: its revision has fallen since {newer}"
