"""What was done to the agents, and what they answered: all that the checkers know. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

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
