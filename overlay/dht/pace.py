"""How often contacts are looked after: seldom while nobody disappears, often as soon as somebody does.

Owns all periods of the DHT and the rule that stretches two of them; which contacts are due is `table`'s. Pure. Not a
back-off by the age of each contact: agents leave together (a rack, a rollout), so one disappearance is a reason to
doubt all the others, while a contact's own age says little.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: A contact among the nearest is checked at most this many times as seldom as in restless times: whoever looks for
#: their keys asks us, and each wrong name of ours costs him a timeout.
NEAR_CALM_MAX: Final = 2


@dataclass(frozen=True, kw_only=True)
class DhtTimes:
    """How patient an agent is."""

    #: A call without answer for so long is a strike; 1 s is many round trips in any one datacentre.
    request_ms: int = 1000
    #: A call is repeated after so long: above the round trip, well below `request_ms`. A lookup then asks others
    #: beside, and waits for a contact already under suspicion for twice as long.
    hedge_ms: int = 200
    #: Pace of looking after contacts.
    keepalive_ms: int = 2000
    #: A contact unheard for so long is pinged in restless times; a dead one leaves after about
    #: idle + 2 x (request + keepalive).
    idle_ms: int = 20_000
    #: How many times as long it may be unheard while nobody disappears; also thins out the thorough refreshes. At 4,
    #: 1,280 idle agents send under three datagrams a second each, and 45 s after 15 % of the agents died at once, one
    #: contact in 250 is a dead one; at 8 that takes 90 s.
    calm_max: int = 4
    #: Pace of refreshes.
    refresh_ms: int = 60_000

    def __post_init__(self) -> None:
        if not 0 < self.hedge_ms < self.request_ms:
            raise ValueError(f"hedge_ms = {self.hedge_ms} must lie between 0 and request_ms = {self.request_ms}")
        if self.calm_max < 1 or self.idle_ms < self.keepalive_ms:
            raise ValueError(f"calm_max = {self.calm_max} must be at least 1, idle_ms at least keepalive_ms")


class Pace:
    """The state of alarm of one agent.

    Args:
        idle_ms: how long a contact may be unheard in restless times before it is pinged.
        calm_max: by how much that grows while nothing happens; a power of two.
        now_ms: the time of the start, which counts as restless.
    """

    __slots__ = ("_calm_max", "_idle_ms", "_since_ms", "calm")

    def __init__(self, idle_ms: int, calm_max: int, now_ms: int) -> None:
        self._idle_ms = idle_ms
        self._calm_max = calm_max
        self._since_ms = now_ms
        #: 1 in restless times, up to `calm_max`.
        self.calm = 1

    @property
    def far_ms(self) -> int:
        """How long a far contact may be unheard before it is pinged: lookups pass over a dead one within a hedge."""
        return self._idle_ms * self.calm

    @property
    def near_ms(self) -> int:
        """How long one of the nearest contacts may be unheard before it is pinged."""
        return self._idle_ms * min(self.calm, NEAR_CALM_MAX)

    def tick(self, now_ms: int) -> None:
        """Become calmer after every period in which each contact was heard and nobody was given up."""
        if now_ms - self._since_ms >= self.far_ms:
            self.calm = min(2 * self.calm, self._calm_max)
            self._since_ms = now_ms

    def disturb(self, now_ms: int) -> None:
        """Take note that a contact was given up or found again."""
        self.calm = max(self.calm // 2, 1)
        self._since_ms = now_ms
