"""What was done to the agents, and what they answered: all that the checkers know. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elf.overlay.sim.machines import EPOCH_MS

#: Clocks that nobody set differ by less than this.
SKEWED_MS = 1_000
#: What is pushed, and what is logged; every agent has both.
PUSHED, LOGGED = "clicks", "lines"
#: Labels that say that nothing is missing.
COMPLETE = ("final", "revised")


@dataclass(slots=True)
class Event:
    """One line that was logged on a host, or pushed to its agent; its number is its key in every job."""

    number: int
    source: str
    host: str
    ts_ms: int
    pushed_s: float
    #: When the agent said that it is durable, or it was logged, in virtual seconds; None: the agent did not say so, and
    #: may or may not have it.
    acked_s: float | None = None
    #: What the agent can have taken the time for then, at most.
    shown_ms: int = 0
    #: The agent said that nothing of it will be read.
    refused: bool = False
    #: The disk that it was on was lost.
    lost: bool = False

    def is_due(self, job: JobPlan) -> bool:
        """Tell whether its agent has had it before it may have sealed the interval: then it is not late."""
        return self.acked_s is not None and self.shown_ms < job.start_of(self.ts_ms) + job.size_ms + job.lateness_ms


@dataclass(frozen=True, kw_only=True)
class JobPlan:
    """A job: it counts each event by itself, in windows that follow each other."""

    name: str
    source: str
    size_ms: int
    lateness_ms: int = 1_000
    leap_after_ms: int = 3_000
    straggler: str = "late"
    trees: int = 1
    availability: str = "exact"

    @property
    def text(self) -> str:
        """The job file."""
        return f"""
name = "{self.name}"
creator = "world"
query = '''
SELECT host, number, count(*) AS n FROM {self.source} GROUP BY host, number, window(ts, '{self.size_ms} milliseconds')
'''
[options]
lateness = "{self.lateness_ms} ms"
leap_after = "{self.leap_after_ms} ms"
straggler = "{self.straggler}"
trees = {self.trees}
availability = "{self.availability}"
"""

    @property
    def drops(self) -> bool:
        """Whether what comes too late for its agent's place in a commit is dropped, as labels say."""
        return self.straggler in ("drop", "void")

    def start_of(self, ts_ms: int) -> int:
        """Return the start of an event's window."""
        return ts_ms // self.size_ms * self.size_ms


@dataclass(frozen=True, slots=True)
class Answer:
    """What one agent answered about one window; times in virtual seconds."""

    job: str
    start_ms: int
    #: Event number -> (its host, how often it was counted).
    rows: dict[int, tuple[str, int]]
    status: str
    missing: tuple[str, ...]
    gaps: int
    void: int
    revision: int
    version: int
    #: The address of the master that answered; of several, none.
    master: str
    via: str
    asked_s: float
    answered_s: float

    def __str__(self) -> str:
        label = f"{self.status} revision {self.revision} missing {','.join(self.missing) or '-'}"
        more = "".join(f" {count} {what}" for count, what in ((self.gaps, "gaps"), (self.void, "void")) if count)
        return f"{self.job} [{self.start_ms}) via {self.via} at {self.answered_s:.2f} s, {label}{more}"


@dataclass(frozen=True, slots=True)
class Known:
    """What an agent knew of a job at a moment: the versions it has heard of, and of its root group, if it is in it.

    `versions` holds number -> fingerprint; `leader` is whom the member takes for the leader of `term`, None: nobody.
    """

    host: str
    at_s: float
    job: str
    publication: str
    versions: dict[int, str]
    term: int | None = None
    leader: str | None = None


@dataclass
class Truth:
    """All that happened in a run."""

    jobs: tuple[JobPlan, ...] = ()
    events: dict[int, Event] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    known: list[Known] = field(default_factory=list)
    #: Job -> when it was published; what came before may be known by no agent's worker.
    published_s: dict[str, float] = field(default_factory=dict)
    #: Host -> what its clock said when its disk was lost last.
    lost_ms: dict[str, int] = field(default_factory=dict)
    #: Hosts whose disk was lost or whose clock was set, which labels tell by names and gaps for good.
    doubtful: set[str] = field(default_factory=set)
    #: Host -> when somebody began to start its first agent, of those that came while jobs ran.
    joined_s: dict[str, float] = field(default_factory=dict)
    #: Job, part and host -> when a master was first seen to expect the host's agent.
    enrolled_s: dict[tuple[str, int, str], float] = field(default_factory=dict)
    #: Hosts that were taken out of service for good.
    gone: set[str] = field(default_factory=set)
    #: Host and job -> since which event time its data is missing, as whoever retired it was told; None: always.
    retired_ms: dict[tuple[str, str], int | None] = field(default_factory=dict)

    def push(self, source: str, host: str, ts_ms: int, now_s: float) -> Event:
        """Make the next event."""
        number = len(self.events)
        event = self.events[number] = Event(number, source, host, ts_ms, now_s)
        return event

    def lose(self, host: str, wall_ms: int) -> None:
        """A disk is lost, with what was pushed there; the web server's log is on another one."""
        self.doubtful.add(host)
        self.lost_ms[host] = wall_ms
        for event in self.events.values():
            if event.host == host and event.source == PUSHED:
                event.lost = True

    def retire(self, host: str, told: Sequence[Mapping[str, Any]]) -> None:
        """Masters say since when an agent's data is missing, which they expect no more and will not name."""
        self.doubtful.add(host)
        for each in told:
            key = host, each["job"].partition("/")[2]
            since_ms = each["missing_since_ms"]
            known_ms = self.retired_ms.get(key, since_ms)
            self.retired_ms[key] = None if None in (since_ms, known_ms) else min(since_ms, known_ms)
        # Until it is seen again, if it comes back.
        self.enrolled_s = {key: at_s for key, at_s in self.enrolled_s.items() if key[2] != host}

    def is_given_up(self, event: Event, job: JobPlan) -> bool:
        """Tell whether an operator was told that what is missing may be, no more named: its agent was retired.

        What came late for its interval may be without a word: nobody knows of it.
        """
        if (event.host, job.name) not in self.retired_ms:
            return False
        since_ms = self.retired_ms[event.host, job.name]
        return since_ms is None or since_ms <= event.ts_ms or not event.is_due(job)

    def is_unexpected(self, event: Event, job: JobPlan) -> bool:
        """Tell whether no label needs to name an event's agent: it had just come, or is retired."""
        if event.pushed_s > self.expected_s(job, event.host):
            return False
        return event.host in self.joined_s or self.is_given_up(event, job)

    def expected_s(self, job: JobPlan, host: str) -> float:
        """Return since when all masters of a job expect a host's agent; 0 where it was there first, and stayed."""
        if host not in self.joined_s and (host, job.name) not in self.retired_ms:
            return 0.0
        return max(self.enrolled_s.get((job.name, part, host), math.inf) for part in range(job.trees))

    def is_joined_in(self, job: JobPlan, start_ms: int) -> bool:
        """Tell whether an agent came while a window was open, of which it then has not all."""
        return any(
            start_ms - SKEWED_MS < EPOCH_MS + 1_000 * self.expected_s(job, host)
            and EPOCH_MS + 1_000 * came_s < start_ms + job.size_ms + job.lateness_ms + SKEWED_MS
            for host, came_s in self.joined_s.items()
        )

    def is_beyond_labels(self, event: Event, job: JobPlan) -> bool:
        """Tell whether a late event of a host that lost its disk may be missing without a word.

        Lost with the disk it is in no label, for it was not read; dated before the loss and pushed after it, it looks
        like a line that is read again, which is left out where the last agent was counted.
        """
        return not event.is_due(job) and (event.lost or event.ts_ms < self.lost_ms.get(event.host, 0))

    def windows(self, job: JobPlan) -> dict[int, list[Event]]:
        """Return the events of each window, those that were refused left out."""
        found: dict[int, list[Event]] = {}
        for event in self.events.values():
            if not event.refused and event.source == job.source:
                found.setdefault(job.start_of(event.ts_ms), []).append(event)
        return found

    def by_window(self) -> Iterator[tuple[JobPlan, int, list[Event], list[Answer]]]:
        """Yield every window of every job with its events and what was answered, in the order of the answers."""
        seen: dict[tuple[str, int], list[Answer]] = {}
        for answer in sorted(self.answers, key=lambda each: each.answered_s):
            seen.setdefault((answer.job, answer.start_ms), []).append(answer)
        for job in self.jobs:
            windows = self.windows(job)
            for start_ms in sorted({*windows, *(start for name, start in seen if name == job.name)}):
                yield job, start_ms, windows.get(start_ms, []), seen.get((job.name, start_ms), [])
