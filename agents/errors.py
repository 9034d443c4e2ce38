"""Every error an agent raises on purpose, sorted by whose fault it is (STYLE 3.5).

`ConfigError` is the operator's, `JobError` the publisher's. Trouble that is expected while running (a peer is away,
a source is idle) is an input or a counter, never an exception.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

EXIT_USAGE = 2
EXIT_CONFIG = 78


class ElfError(Exception):
    """The root of all errors that elf raises on purpose; its text is one clear sentence for a person."""


class ConfigError(ElfError):
    """A setting is wrong or unknown: the operator's fault, raised at start and when settings are read again."""


class DamagedError(ElfError):
    """A file is not what was written into it: nobody's who asks. The text names it."""


class JobError(ElfError):
    """A job, or what was asked of it, is wrong: the publisher's fault."""


class JobSpecError(JobError):
    """A job definition cannot run as written.

    Args:
        message: what is wrong and what would be right, without the place.
        line: 1-based line in the job's SQL or TOML text, or None where no single place is wrong.
        column: 1-based column in that line.
        hint: the nearest valid word or a valid form, shown after the message.
        setting: what of the job is wrong beside its query, as `options.retain` or `functions.NAME`; only its file tells
            the place.
    """

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
        setting: str | None = None,
    ) -> None:
        self.message = message
        self.line = line
        self.column = column
        self.hint = hint
        self.setting = setting
        place = f"{line}:{column}: " if line is not None else ""
        super().__init__(place + message + (f" ({hint})" if hint else ""))


class UnknownJobError(JobError):
    """No such job; `nearest` lists the names that look most like it. `ended`: why there is none any more, if known."""

    def __init__(self, name: str, known: Iterable[str] = (), ended: str = "") -> None:
        self.name = name
        self.ended = ended
        self.nearest = () if ended else nearest(name, known)
        super().__init__(f"there is no job {name!r}" + (f" any more: {ended}" if ended else did_you_mean(self.nearest)))


class StoppedError(JobError):
    """The job is stopped and answers nothing, but it can be resumed; the text says until when. HTTP 409."""


class JobConflictError(JobError):
    """A job of this name and creator exists with another definition."""


class NotCreatorError(JobError):
    """What was asked of a job is its creator's to ask, and it was not, or not as it has to be. HTTP 403."""


class NotAdmittedError(JobError):
    """A record of another agent is not taken: its stamp is none that it can have, or there is no room. HTTP 400."""


class NotBelievedError(JobError):
    """A record of an agent is not taken, for it is not what that agent has signed. HTTP 400."""


class ExpiredError(JobError):
    """What was asked for begins before anything that the job still retains. HTTP 410."""


class UnavailableError(ElfError):
    """The answer exists but nobody who has it can be reached now; asking again later may work.

    Args:
        message: the sentence.
        retry_after_s: after how many seconds asking again may help. Most have no master at the moment, and get one
            within about a second.
    """

    def __init__(self, message: str = "", *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class MistakeError(ElfError):
    """An agent failed on what it was asked by a mistake of its own; asked again it would fail again. HTTP 500."""


class IncompleteError(ElfError):
    """A result was to be shown only if it is complete, and is not, or not yet. HTTP 409."""


class BadRequestError(ElfError):
    """The request itself is wrong (a parameter, the body): the caller's fault. HTTP 400."""


class KeyReusedError(ElfError):
    """A push came under the key of another, which is remembered and has other lines. HTTP 409."""


class UnknownSourceError(ElfError):
    """This agent has no source of that name; `nearest` lists the ones that look most like it. HTTP 404."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        self.nearest = nearest(name, known)
        super().__init__(f"this agent has no source {name!r}" + did_you_mean(self.nearest))


class UnknownAgentError(ElfError):
    """No job expects an agent of that name; `nearest` lists the ones that look most like it. HTTP 404."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        self.nearest = nearest(name, known)
        super().__init__(f"no job expects an agent {name!r}" + did_you_mean(self.nearest))


class AgentRunningError(ElfError):
    """An agent was said to be gone for good, and it still answers. HTTP 409."""


def nearest(word: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Return up to `most` known words that look most like `word`, best first."""
    return tuple(difflib.get_close_matches(word, sorted(set(known)), n=most, cutoff=0.5))


def did_you_mean(words: Sequence[str]) -> str:
    """Render the nearest words as the tail of an error sentence; empty when there are none."""
    return f"; did you mean {' or '.join(repr(w) for w in words)}?" if words else ""
