"""What offline work asks an agent: the job; and for a verification its closed windows, and labels of parts of a window.

The client is handed in. Questions for many windows go out several at a time, and no more are on their way than that,
so that the answers of a week need not be in memory at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import msgspec

from agents.errors import JobError
from agents.jobs.definition import Options
from elf.offline.grid import Window
from elf.offline.since import parse_since

#: Questions under way at a time.
QUESTIONS = 8
#: A window a second over a day.
WINDOWS_MAX = 100_000
Result = Mapping[str, Any]


class DescribingClient(Protocol):
    """Asks an agent for a job."""

    def job(self, name: str) -> Mapping[str, Any]:
        """Return the job's description with creator, name, source, query and columns."""
        ...


class JobClient(DescribingClient, Protocol):
    """What verification asks an agent."""

    def query(self, name: str, *, window: str, limit: int | None = None) -> Any:
        """Return the Result of one window, as a mapping or a record."""
        ...


class Slides(msgspec.Struct, frozen=True):
    """A job's window, as the API describes it."""

    size_ms: int
    slide_ms: int


class CountedAgent(msgspec.Struct, frozen=True):
    """An agent, and the event time up to which the job has counted it; None if it never has."""

    agent: str
    name: str
    through_ms: int | None


class Reach(msgspec.Struct, frozen=True):
    """What may be backfilled of one publication: event time, None before its first result, and who was counted."""

    instance: str
    first_ms: int | None
    until_ms: int | None
    agents: list[CountedAgent]


class Part(msgspec.Struct, frozen=True):
    """One of the parts of a job with several trees, or why its master does not answer."""

    backfill: Reach | None = None
    trouble: str | None = None


class JobText(msgspec.Struct, frozen=True):
    """A job as the API describes it."""

    creator: str
    name: str
    source: str
    query: str
    columns: dict[str, str]
    window: Slides | None = None
    interval_ms: int | None = None
    #: End of the last committed interval, and begin of the first one that is still there.
    through_ms: int | None = None
    oldest_ms: int | None = None
    #: Windows that begin before are no longer answered; None if nothing has expired.
    expired_ms: int | None = None
    #: Names of the agents that are, or were, expected, by their ids.
    agents: dict[str, str] = {}
    #: Names of those that are expected now.
    roster: list[str] = []
    options: Options = Options()
    #: Of a job with several trees, of its first part; then `parts` has all of them.
    backfill: Reach | None = None
    parts: list[Part] = []

    @property
    def key(self) -> str:
        """`creator/name`."""
        return f"{self.creator}/{self.name}"


def describe(client: DescribingClient, name: str) -> JobText:
    """Ask for a job.

    Raises:
        ElfError: the agent does not know it, or its description lacks something.
    """
    plain = msgspec.to_builtins(client.job(name))
    # Some agents nest the definition in their description of the job.
    nested = plain.get("definition")
    try:
        return msgspec.convert(plain | nested if isinstance(nested, dict) else plain, JobText)
    except msgspec.ValidationError as error:
        raise JobError(f"the agent's description of job {name!r} is incomplete: {error}") from None


def windows_since(job: JobText, since: str) -> list[Window]:
    """List a job's closed windows that end after a time, ascending; of those that are gone, none.

    Args:
        job: as described by its master.
        since: see `parse_since`; a duration counts back from the newest closed interval's end.

    Raises:
        JobError: the job has no windows, or `since` is neither, or names too many windows.
    """
    if job.window is None:
        raise JobError(f"job {job.key} has no window: it counts since it began; leave --since out")
    if job.through_ms is None:
        return []
    since_ms = parse_since(since, job.through_ms)
    size_ms, slide_ms = job.window.size_ms, job.window.slide_ms
    since_ms = max(since_ms, since_ms if job.oldest_ms is None else job.oldest_ms)
    first = since_ms // slide_ms + 1
    if job.expired_ms is not None:
        first = max(first, -(-(job.expired_ms + size_ms) // slide_ms))
    last = job.through_ms // slide_ms
    if last - first >= WINDOWS_MAX:
        raise JobError(f"{last - first + 1} windows of {job.key} closed since {since}; verify at most {WINDOWS_MAX}")
    return [(end * slide_ms - size_ms, end * slide_ms) for end in range(first, last + 1)]


def ask_windows(client: JobClient, job: JobText, windows: Sequence[str]) -> Iterator[Result]:
    """Yield the results of windows in their order; one that has expired meanwhile is left out.

    Raises:
        ElfError: the agent refuses, or cannot be reached.
    """
    if len(windows) == 1:
        yield msgspec.to_builtins(client.query(job.key, window=windows[0]))
        return

    def ask(window: str) -> Result | None:
        try:
            result: Result = msgspec.to_builtins(client.query(job.key, window=window))
        except JobError as error:
            if "still retains" in str(error):
                return None
            raise
        return result

    with ThreadPoolExecutor(QUESTIONS) as pool:
        for several in _batches(windows, 4 * QUESTIONS):
            yield from (result for result in pool.map(ask, several) if result is not None)


class Labels:
    """The completeness of parts of windows, each asked for once.

    Args:
        ask: returns the label of [start_ms, end_ms).
        interval_ms: the shortest part there is.
    """

    def __init__(self, ask: Callable[[int, int], Mapping[str, Any]], interval_ms: int) -> None:
        self._ask, self.interval_ms = ask, interval_ms
        self._known: dict[Window, Mapping[str, Any]] = {}

    def __call__(self, start_ms: int, end_ms: int) -> Mapping[str, Any]:
        """Return the label of a part of a window."""
        at = start_ms, end_ms
        if at not in self._known:
            self._known[at] = self._ask(*at)
        return self._known[at]


def labels_of(client: JobClient, job: JobText) -> Labels | None:
    """Return the labels of a job with windows."""
    if job.window is None or job.interval_ms is None:
        return None

    def ask(start_ms: int, end_ms: int) -> Mapping[str, Any]:
        answer = msgspec.to_builtins(client.query(job.key, window=f"{start_ms}/{end_ms}", limit=1))
        label: Mapping[str, Any] = answer["completeness"]
        return label

    return Labels(ask, job.interval_ms)


def _batches(windows: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (windows[at : at + size] for at in range(0, len(windows), size))
