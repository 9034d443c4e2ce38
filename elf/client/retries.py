"""Which failures are worth asking again, whom and when, until a deadline. Pure: time and chance are arguments."""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass

#: The first pause, before chance shortens it by up to half; each later one is twice as long, up to the longest.
PAUSE_S, PAUSE_S_MAX = 0.1, 1.0
#: What a server says to wait is made longer by up to this share, so that not all who were told come at once.
SPREAD = 0.25


class Trouble(enum.Enum):
    """What kept an agent from answering."""

    #: No connection came about, so nothing was asked: the agent is not there, or not yet.
    UNTAKEN = enum.auto()
    #: It answered that nobody who has the answer can be reached now.
    AWAY = enum.auto()
    #: It was asked, and no answer came: whether it did what was asked nobody knows.
    BROKEN = enum.auto()
    #: It will say the same next time.
    FINAL = enum.auto()


class Repeat(enum.Enum):
    """When something that was asked for is asked for again by itself."""

    #: Whatever keeps the answer away: asked twice, it comes to the same.
    ALWAYS = frozenset({Trouble.UNTAKEN, Trouble.AWAY, Trouble.BROKEN})
    #: Unless an agent has answered, whatever it said.
    UNANSWERED = frozenset({Trouble.UNTAKEN, Trouble.BROKEN})
    #: Only if it is certain that no agent has taken it.
    UNTAKEN = frozenset({Trouble.UNTAKEN})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one try failed, and how long the agent says to wait, if it does."""

    trouble: Trouble
    retry_after_s: float | None = None


class Course:
    """How one question fares with several agents.

    Each is asked in its turn: who never was before who is to be asked again, and these when they said, or after pauses
    that grow.

    Args:
        agents: how many there are, numbered from 0.
        agent: who is asked first.
        repeat: which failures are not the end.
        begun_s: the time now.
        end_s: the deadline.
    """

    def __init__(self, agents: int, agent: int, repeat: Repeat, begun_s: float, end_s: float) -> None:
        self.agent = agent
        self.begun_s = begun_s
        self.end_s = end_s
        #: How often each was asked in vain.
        self.tries = [0] * agents
        self._repeat = repeat
        self._ready_s = [float("-inf")] * agents

    def limit_s(self, now_s: float) -> float:
        """Return how long the agent whose turn it is may take.

        All the time that is left, but for half of it while there are others who were never asked: one that is stuck
        must not keep the question from them.
        """
        left_s = max(self.end_s - now_s, 0.0)
        return left_s / 2 if self._others() else left_s

    def failed(self, failure: Failure, now_s: float, rng: random.Random) -> float | None:
        """Note that the agent whose turn it was failed; return the pause before `agent` is asked, None: give up."""
        failed = self.agent
        self.tries[failed] += 1
        if not self.repeats(failure.trouble):
            return None
        self._ready_s[failed] = now_s + _pause_s(self.tries[failed], failure.retry_after_s, rng)
        count = len(self.tries)
        after = min(range(count), key=lambda agent: (self._ready_s[agent], (agent - failed - 1) % count))
        pause_s = max(self._ready_s[after] - now_s, 0.0)
        if now_s + pause_s >= self.end_s:
            return None
        self.agent = after
        return pause_s

    def repeats(self, trouble: Trouble) -> bool:
        """Tell whether a trouble is not the end."""
        return trouble in self._repeat.value

    def _others(self) -> int:
        return sum(not tries for agent, tries in enumerate(self.tries) if agent != self.agent)


def trouble_of_status(status: int) -> Trouble:
    """Tell what an answer that is an error means, by its HTTP status.

    503 is an agent's own, and with 429, 502 and 504 what a proxy in front of it says for it while it is away.
    """
    return Trouble.AWAY if status in (429, 502, 503, 504) else Trouble.FINAL


def read_retry_after(text: str | None) -> float | None:
    """Read the header in seconds; None if there is none, or a time of day in its place, which no agent sends."""
    if text is None or len(text) > 9 or not (text.isascii() and text.isdecimal()):
        return None
    return float(text)


def _pause_s(tries: int, retry_after_s: float | None, rng: random.Random) -> float:
    own_s = min(PAUSE_S * 2.0 ** min(tries - 1, 32), PAUSE_S_MAX) * (1 - rng.random() / 2)
    return max(own_s, (retry_after_s or 0.0) * (1 + SPREAD * rng.random()))
