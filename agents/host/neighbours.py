"""The agents around this one: comparing clocks with some of them. Shell.

What their clocks mean for ours is decided in `elf.agents.host.agreement`, and what follows from it in
`elf.agents.host.clock`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib

import msgspec

from elf.agents.errors import ElfError
from elf.agents.host.agreement import Agreement
from elf.agents.host.bootstrap import Entering
from elf.agents.host.clock import AHEAD_MS, STEP_MS_MAX, Clock
from elf.agents.wire.agents import Introduce, Told
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.overlay.dht import state
from elf.overlay.errors import OverlayError
from elf.overlay.ids import Contact, distance
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: How many neighbours are asked for the time at once, of those to which there is a link: it costs one message each way.
ASKED_MAX = 5
#: How long they have to answer.
ANSWER_MS = 1_500
#: Pauses between two looks: while nobody was heard who should be; at first, and so much longer each time; at last.
HELD_S, STEP_S, AGAIN_S = 0.25, 1.0, 5.0


class Neighbours:
    """Those of one agent.

    Args:
        node: the overlay.
        clock: this agent's, which heeds what they say.
    """

    def __init__(self, node: OverlayNode, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        #: Of the overlay, through those that are configured.
        self.entering = Entering(node, node.settings.join)
        #: How far this machine's clock is wrong, if it is; for `/readyz`.
        self.trouble: str | None = None
        self._agreement = Agreement()
        self._had_any: bool | None = None

    async def run(self) -> None:
        """Compare clocks again and again."""
        pause_s = STEP_S
        while True:
            await asyncio.sleep(HELD_S if self._clock.is_held else pause_s)
            await self.compare()
            if not self._clock.is_held:
                pause_s = min(pause_s + STEP_S, AGAIN_S)

    def look(self) -> None:
        """Let our clock close nothing if there is anybody to be heard who was not yet: before a job is taken up."""
        self._clock.is_held = self._agreement.holds(self._are_any(), self._clock.up_ms())

    async def compare(self) -> None:
        """Ask some neighbours for the time, and let our clock heed what they say."""
        clock = self._clock
        self.look()
        was_held = clock.is_held
        me, linked = self._node.contact.id, self._node.linked()
        nearest = sorted(linked, key=lambda contact: distance(contact.id, me))  # or all would ask the same ones
        await asyncio.gather(*map(self._ask, nearest[:ASKED_MAX]))
        wall_ms, now_ms = clock.wall_ms(), clock.up_ms()
        clock.heed(self._agreement.offset_ms(wall_ms - now_ms, now_ms))
        self._say(clock.apart_ms() or 0)
        self.look()
        if was_held and not clock.is_held and clock.apart_ms() is None:
            log.info("no neighbour says what the time is: intervals are closed by this machine's clock")

    def _are_any(self) -> bool:
        """Tell whether other agents are known, or should be: those that are configured, or that the last run knew."""
        if self._had_any is None:
            self._had_any = False
            with contextlib.suppress(OSError, ValueError, RecursionError):  # the overlay says what is wrong with it
                text = pathlib.Path(self._node.settings.contacts_file).read_bytes()[: state.FILE_BYTES_MAX]
                self._had_any = bool(state.decode(text))
        return self._had_any or not self.entering.joined or bool(self._node.linked() or self._node.contacts())

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
        is_new = self.trouble is None
        self.trouble = f"{far}: until it is right, {what}"
        if is_new:
            log.warning("%s", self.trouble)
