"""What machines ask for reaches the part that does it; lookups answer, also where they fail, and end with the node."""

import asyncio
from typing import Any

import pytest

from elf.overlay.effects import Input, LookedUp, Lookup, Merge, Suspect
from elf.overlay.errors import OverlayError
from elf.overlay.executor import Executor
from elf.overlay.ids import Contact

APP = b"a" * 20
PEER = Contact(b"p" * 20, "127.0.0.1", 4250)


class Parts:
    """Links, DHT and border in one, which write down what is asked of them."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.fed: list[tuple[bytes, Input]] = []
        self.found: list[Contact] | None = [PEER]
        self.hangs = False
        everything: Any = self
        self.executor = Executor(everything, everything, everything, lambda app, event: self.fed.append((app, event)))

    def suspect(self, contact: Contact) -> None:
        self.asked.append(contact)

    def merge(self, app: bytes, ticket: int, payloads: tuple[bytes, ...]) -> None:
        self.asked.append((app, ticket, payloads))

    async def lookup(self, key: bytes) -> list[Contact]:
        if self.hangs:
            await asyncio.Event().wait()
        if self.found is None:
            raise OverlayError("nobody answers")
        return self.found


async def test_effects_are_executed_in_their_order() -> None:
    parts = Parts()
    parts.executor.execute(APP, [Merge(3, (b"x",)), Suspect(PEER)])
    assert parts.asked == [(APP, 3, (b"x",)), PEER]


@pytest.mark.parametrize(("found", "told"), [([PEER], (PEER,)), (None, ())])
async def test_a_lookup_always_answers(found: list[Contact] | None, told: tuple[Contact, ...]) -> None:
    parts = Parts()
    parts.found = found
    parts.executor.execute(APP, [Lookup()])
    await asyncio.sleep(0)
    assert parts.fed == [(APP, LookedUp(told))]


async def test_a_lookup_under_way_ends_with_the_node() -> None:
    parts = Parts()
    parts.hangs = True
    parts.executor.execute(APP, [Lookup()])
    await asyncio.sleep(0)
    await parts.executor.stop()
    assert not parts.fed
