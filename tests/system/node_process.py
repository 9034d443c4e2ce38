"""One overlay node in a process of its own; told what to do and asked what it sees by lines of JSON.

`python -m tests.system.node_process SETTINGS` with `OverlaySettings` as JSON prints the node's address, then one answer
for each line it reads, and ends with its standard input. The node is the real one; above it is the null runtime.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec

from elf.overlay.contract import OverlaySettings
from elf.overlay.errors import OverlayError
from elf.overlay.messages import contact_of
from elf.overlay.node import OverlayNode
from tests.sweep.runtime import Runtime
from tests.system.nodes import Place, Seen

#: Before trying to join again; others may be starting, or be cut off.
JOIN_AGAIN_S = 0.5


class Node:
    """The node and its runtime, by command."""

    def __init__(self, settings: OverlaySettings) -> None:
        self.runtime = Runtime(settings.agent_id)
        self.overlay = OverlayNode(settings, self.runtime)
        self._joins = bool(settings.join)

    async def join_for_ever(self) -> None:
        """Join until somebody answers."""
        joined = not self._joins or await self.overlay.join()
        while not joined:
            await asyncio.sleep(JOIN_AGAIN_S)
            joined = await self.overlay.join()

    async def answer(self, command: dict[str, Any]) -> Any:
        """Carry one command out; anything that JSON can say comes back."""
        app = bytes.fromhex(command.get("app", ""))
        match command["do"]:
            case "look":
                runtime = self.runtime
                place = Place.of(self.overlay.tree(app))
                known = [contact.address for contact in self.overlay.contacts()]
                return Seen(place, known, runtime.commits, [entry for key, entry in runtime.controls if key == app])
            case "join_tree":
                root = contact_of(command["root"]) if command.get("root") else None
                self.overlay.join_tree(app, member=True, root=root)
            case "seal":
                self.runtime.seal(self.overlay, app, command["through"], command["items"])
            case "multicast":
                self.overlay.multicast(app, command["body"].encode())
            case unknown:
                raise OverlayError(f"there is no command {unknown!r}")
        return None


async def serve(settings: OverlaySettings) -> None:
    """Run until standard input ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    node = Node(settings)
    await node.overlay.start()
    _say(node.overlay.contact.address)
    joining = asyncio.create_task(node.join_for_ever())
    while line := await reader.readline():
        try:
            _say({"ok": await node.answer(msgspec.json.decode(line))})
        except OverlayError as error:
            _say({"error": str(error)})
    joining.cancel()
    await node.overlay.stop()


def _say(answer: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(serve(msgspec.json.decode(sys.argv[1], type=OverlaySettings)))
