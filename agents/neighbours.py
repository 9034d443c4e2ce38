"""The agents around this one: comparing clocks with some of them. Shell.

What their clocks mean for ours is decided in `agents.agreement`, and what follows from it in `agents.clock`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import pathlib

import msgspec

from agents.agreement import Agreement
from agents.clock import AHEAD_MS, STEP_MS_MAX, Clock
from agents.entering import Entering
from agents.errors import ElfError
from agents.replies import value_of
from agents.requests import Introduce, Told, contact_at, encode
from overlay.dht import state
from overlay.errors import OverlayError
from overlay.ids import Contact
from overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: How many neighbours are asked for the time at once, and how many at least, also if no link leads to them. A link that
#: is there is used: it costs one message each way.
ASKED_MAX, ASKED_MIN = 5, 3
#: How long they have to answer.
ANSWER_MS = 1_500
#: Pauses between two looks: while nobody is known, while nobody has answered yet, and at last.
ALONE_S, UNHEARD_S, AGAIN_S = 0.25, 1.0, 5.0


class Neighbours:
    """Those of one agent.

    Args:
        node: the overlay.
        clock: this agent's, which heeds what they say.
    """

    def __init__(self, node: OverlayNode, clock: Clock) -> None:
        self._node, self._clock = node, clock
        #: Of the overlay, through those that are configured.
        self.entering = Entering(node, node.settings.join)
        #: How far this machine's clock is wrong, if it is; for `/readyz`.
        self.trouble: str | None = None
        self._agreement = Agreement()
        self._former: list[Contact] | None = None

    async def run(self) -> None:
        """Compare clocks again and again."""
        pause_s = UNHEARD_S
        while True:
            await asyncio.sleep(pause_s if self._chosen() else ALONE_S)
            await self.compare()
            if not self._clock.is_held:
                pause_s = min(pause_s + UNHEARD_S, AGAIN_S)

    async def compare(self) -> None:
        """Ask some neighbours, if any are known, for the time, and let our clock heed what they say."""
        asked, clock = self._chosen(), self._clock
        is_known = bool(asked) or not self.entering.joined
        clock.is_held = self._agreement.holds(is_known, clock.up_ms())
        await asyncio.gather(*map(self._ask, asked))
        wall_ms, now_ms = clock.wall_ms(), clock.up_ms()
        clock.heed(self._agreement.offset_ms(wall_ms - now_ms, now_ms))
        self._say(clock.apart_ms() or 0)
        was_held, clock.is_held = clock.is_held, self._agreement.holds(is_known, now_ms)
        if was_held and not clock.is_held and clock.apart_ms() is None:
            log.info("no neighbour says what the time is: intervals are closed by this machine's clock")

    def _chosen(self) -> list[Contact]:
        linked = sorted(self._node.linked(), key=lambda contact: contact.id)[:ASKED_MAX]
        others = [] if len(linked) >= ASKED_MIN else (self._node.contacts() or self._before())
        found = dict.fromkeys([*linked, *others[: ASKED_MAX if not linked else ASKED_MIN]])
        return [contact for contact in found if contact != self._node.contact][:ASKED_MAX]

    def _before(self) -> list[Contact]:
        """Return who is configured and whom the last run knew: before the overlay is entered, nobody else is known."""
        if self._former is None:
            settings, self._former = self._node.settings, []
            with contextlib.suppress(OSError, ValueError, RecursionError):  # the overlay says what is wrong with it
                self._former = state.decode(pathlib.Path(settings.contacts_file).read_bytes()[: state.FILE_BYTES_MAX])
            for address in settings.join:
                with contextlib.suppress(ValueError):
                    seed = contact_at(address)
                    ipaddress.ip_address(seed.host)  # what a name stands for, the overlay finds out
                    self._former.insert(0, seed)
        return self._former

    async def _ask(self, contact: Contact) -> None:
        asked_ms = self._clock.up_ms()
        try:
            answer = value_of(await self._node.ask(contact, encode(Introduce()), ANSWER_MS))
            told = msgspec.convert(answer, Told)
        except (OverlayError, ElfError, msgspec.ValidationError):
            return
        self._agreement.note(contact.address, told.wall_ms, asked_ms, self._clock.up_ms())

    def _say(self, apart_ms: int) -> None:
        """Show, and say once, that this machine's clock is wrong, and when that is over."""
        if abs(apart_ms) <= (AHEAD_MS if self.trouble is None else STEP_MS_MAX):
            if self.trouble is not None:
                log.info("this machine's clock is right again")
            self.trouble = None
            return
        where, what = ("ahead of", "it goes by theirs") if apart_ms > 0 else ("behind", "its results come late")
        far = f"this machine's clock is {abs(apart_ms) / 1000:.0f} s {where} what most neighbours' say"
        is_new, self.trouble = self.trouble is None, f"{far}: until it is right, {what}"
        if is_new:
            log.warning("%s", self.trouble)
