"""What a verification asks an agent: a job's closed windows, and the labels of parts of a window.

The client is handed in. Questions for many windows go out several at a time, and no more are on their way than that,
so that the answers of a week need not be in memory at once. Where a master is away for a moment, they wait for it.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import msgspec

from elf.agents.errors import ExpiredError, JobError
from elf.agents.language.query import parse_query
from elf.offline.asking import DescribingClient, JobText, Slides
from elf.offline.grid import Window
from elf.offline.patience import patiently
from elf.offline.since import parse_since
from elf.offline.verify.published import Result

#: Questions under way at a time.
QUESTIONS = 8
#: A window a second over a day.
WINDOWS_MAX = 100_000


class JobClient(DescribingClient, Protocol):
    """What verification asks an agent."""

    def query(self, name: str, *, window: str, limit: int | None = None) -> Any:
        """Return the Result of one window, as a mapping or a record."""
        ...


def windows_since(job: JobText, since: str) -> list[Window]:
    """List a job's closed windows that end after a time, ascending; of those that are gone, none.

    Of a job that was changed these are the windows of each version that end among its own intervals.

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
    since_ms = max(since_ms, since_ms if job.oldest_ms is None else job.oldest_ms)
    # Of what is older than the oldest version that is remembered nobody knows how it was counted.
    oldest_ms = max((each for each in (job.expired_ms, _remembered_ms(job)) if each is not None), default=None)
    found: list[Window] = []
    count = 0
    for window, after_ms, until_ms in _slides(job):
        size_ms, slide_ms = window.size_ms, window.slide_ms
        # Windows begin at multiples of the slide.
        first = ((since_ms if after_ms is None else max(since_ms, after_ms)) - size_ms) // slide_ms + 1
        if oldest_ms is not None:
            first = max(first, -(-oldest_ms // slide_ms))
        last = ((job.through_ms if until_ms is None else min(job.through_ms, until_ms)) - size_ms) // slide_ms
        count += max(0, last - first + 1)
        if count <= WINDOWS_MAX:
            found += [(each * slide_ms, each * slide_ms + size_ms) for each in range(first, last + 1)]
    if count > WINDOWS_MAX:
        raise JobError(f"{count} windows of {job.key} closed since {since}; verify at most {WINDOWS_MAX}")
    return found


def _slides(job: JobText) -> Iterator[tuple[Slides, int | None, int | None]]:
    """Yield the window of each version, and after and until which event time its windows end; None is no bound."""
    if job.joined is not None:
        # All its versions have the window of the first job that it reads.
        yield from () if job.window is None else [(job.window, None, None)]
        return
    for version in job.versions:
        window = parse_query(version.query).window
        if window is not None and (version.since_ms is None or version.since_ms != version.until_ms):
            yield Slides(window.size_ms, window.slide_ms), version.since_ms, version.until_ms
    if not job.versions and job.window is not None:
        yield job.window, None, None


def _remembered_ms(job: JobText) -> int | None:
    """Return since when a version that is remembered counts, if others that are not were before it."""
    return job.versions[0].since_ms if job.versions and job.versions[0].what != "publish" else None


def ask_windows(client: JobClient, job: JobText, windows: Sequence[str]) -> Iterator[Result]:
    """Yield the results of windows in their order; one that has expired meanwhile is left out.

    Raises:
        ElfError: the agent refuses, or cannot be reached.
    """
    if len(windows) == 1:
        yield msgspec.to_builtins(patiently(lambda: client.query(job.key, window=windows[0])))
        return

    given_up = threading.Event()

    def ask(window: str) -> Result | None:
        try:
            result: Result = msgspec.to_builtins(patiently(lambda: client.query(job.key, window=window), given_up))
        except ExpiredError:
            return None
        return result

    with ThreadPoolExecutor(QUESTIONS) as pool:
        try:
            for several in _batches(windows, 4 * QUESTIONS):
                yield from (result for result in pool.map(ask, several) if result is not None)
        finally:
            given_up.set()  # when one has failed, or somebody interrupts, no other is waited for


class Labels:
    """The completeness of parts of windows, each asked for once.

    Args:
        ask: returns the label of [start_ms, end_ms).
        interval_ms: the shortest part there is.
    """

    def __init__(self, ask: Callable[[int, int], Mapping[str, Any]], interval_ms: int) -> None:
        self._ask = ask
        self.interval_ms = interval_ms
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
        span = f"{start_ms}/{end_ms}"
        answer = msgspec.to_builtins(patiently(lambda: client.query(job.key, window=span, limit=1)))
        label: Mapping[str, Any] = answer["completeness"]
        return label

    return Labels(ask, job.interval_ms)


@dataclasses.dataclass(frozen=True)
class Asker:
    """What can still be asked about results.

    Attributes:
        names: the agents' names by their ids, which the archive goes by.
        roster: names of the agents that results expect.
        labels: the labels of parts of windows; None if nobody can be asked.
        client: asks for results again; None if nobody can be asked.
    """

    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    roster: Sequence[str] = ()
    labels: Labels | None = None
    client: JobClient | None = None

    def again(self, key: str, window: Window) -> Result | None:
        """Return the result of a window of job `key` as it is by now."""
        client, span = self.client, f"{window[0]}/{window[1]}"
        if client is None:
            return None
        result: Result = msgspec.to_builtins(patiently(lambda: client.query(key, window=span)))
        return result


def _batches(windows: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (windows[at : at + size] for at in range(0, len(windows), size))
