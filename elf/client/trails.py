"""What was tried for one question: what each failure means, when the next try is, and how the end is told."""

from __future__ import annotations

import random
from collections.abc import Callable

import aiohttp

from elf.agents.errors import ElfError, UnavailableError
from elf.client.problems import error_of, unreachable
from elf.client.retries import Course, Failure, Trouble, read_retry_after, trouble_of_status

#: Of a question that is not answered by then people are told that it is asked again.
NOTICE_S = 1.0

Notice = Callable[[str], None]


class AttemptError(Exception):
    """One agent was asked in vain: what follows from it, and the error for whoever asked."""

    def __init__(self, failure: Failure, error: ElfError) -> None:
        super().__init__(str(error))
        self.failure = failure
        self.error = error


class Trail:
    """Follows a question on its course.

    Args:
        urls: of the agents' APIs.
        course: whom to ask, and when.
        rng: draws pauses.
        notice: is told once, if it takes longer than usual, why.
    """

    def __init__(self, urls: tuple[str, ...], course: Course, rng: random.Random, notice: Notice | None) -> None:
        self._urls = urls
        self._course = course
        self._rng = rng
        self._notice = notice
        #: Agent -> what it said last, or why it said nothing.
        self._why: dict[int, ElfError] = {}

    @property
    def agent(self) -> int:
        """Number of the agent whose turn it is."""
        return self._course.agent

    @property
    def url(self) -> str:
        """Where its API is."""
        return self._urls[self._course.agent]

    def limit_s(self, now_s: float) -> float:
        """Return how long it may take."""
        return self._course.limit_s(now_s)

    def failed(self, attempt: AttemptError, now_s: float) -> float:
        """Note that it failed; return the pause before the next try.

        Raises:
            ElfError: there is no other try: what the last agent said, or what was tried in vain.
        """
        self._why[self.agent] = attempt.error
        pause_s = self._course.failed(attempt.failure, now_s, self._rng)
        if pause_s is None:
            raise self._end(attempt, now_s) from attempt
        if self._notice is not None and now_s + pause_s - self._course.begun_s >= NOTICE_S:
            self._notice(f"{attempt.error}; asking again, for {self._course.end_s - now_s:.0f} s at most")
            self._notice = None
        return pause_s

    def _end(self, attempt: AttemptError, now_s: float) -> ElfError:
        error, trouble, tries = attempt.error, attempt.failure.trouble, self._course.tries
        if not isinstance(error, UnavailableError) or trouble is Trouble.FINAL:
            return error
        if trouble is Trouble.BROKEN and not self._course.repeats(trouble):
            return UnavailableError(f"{error}; what was asked for may have been done, so it is not asked for again")
        if sum(tries) == 1:
            return error
        spent = f"{now_s - self._course.begun_s:.1f} s"
        if len(self._why) == 1:
            return UnavailableError(f"{error} (asked {sum(tries)} times in {spent})")
        whys = [_told(self._urls[agent], why, tries[agent]) for agent, why in self._why.items()]
        return UnavailableError(f"none of {len(whys)} agents could answer in {spent}: {'; '.join(whys)}")


def refused(url: str, response: aiohttp.ClientResponse, body: bytes) -> AttemptError:
    """Return what an answer that is an error means."""
    failure = Failure(trouble_of_status(response.status), read_retry_after(response.headers.get("Retry-After")))
    return AttemptError(failure, error_of(response.status, body, url))


def interrupted(url: str, body: bytes) -> AttemptError:
    """Return what a problem in the midst of a stream means."""
    error = error_of(500, body, url)
    return AttemptError(Failure(Trouble.AWAY if isinstance(error, UnavailableError) else Trouble.FINAL), error)


def broken(url: str, error: BaseException | None) -> AttemptError:
    """Return what it means that there was no answer."""
    if isinstance(error, aiohttp.ClientSSLError | aiohttp.InvalidURL):
        trouble = Trouble.FINAL  # the certificate, or the URL, is no other next time
    elif isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        trouble = Trouble.UNTAKEN
    else:
        trouble = Trouble.BROKEN
    return AttemptError(Failure(trouble), unreachable(url, error))


def _told(url: str, why: ElfError, tries: int) -> str:
    where = "" if url in str(why) else f"{url}: "
    return f"{where}{why} (asked {tries} time{'' if tries == 1 else 's'})"
