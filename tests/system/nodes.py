"""Overlay nodes as processes, for tests: started, asked, killed; looked at by the simulator's checkers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from elf.overlay.contract import Commit, ControlEntry, TreeView
from elf.overlay.ids import Contact, distance
from elf.overlay.messages import contact_of
from tests.sweep.runtime import unpack

T = TypeVar("T")


class Seen(msgspec.Struct):
    """What a node answers when it is looked at, about one tree."""

    place: Place
    known: list[str]
    commits: list[Commit]
    entries: list[ControlEntry]


class Place(msgspec.Struct):
    """A `TreeView` with addresses."""

    role: str
    member: bool
    root: str | None
    parent: str | None
    children: list[str]

    @classmethod
    def of(cls, view: TreeView) -> Place:
        """Name a view's agents by their addresses."""
        root, parent = (contact.address if contact else None for contact in (view.root, view.parent))
        return cls(view.role, view.member, root, parent, [child.address for child in view.children])

    def view(self) -> TreeView:
        """Return the view again."""
        root, parent = (contact_of(address) if address else None for address in (self.root, self.parent))
        return TreeView(self.role, self.member, root, parent, tuple(map(contact_of, self.children)))


class NodeProcess:
    """One node; `before` is put in front of its command line (a network namespace, say)."""

    def __init__(self, name: str, settings: Mapping[str, Any], before: Sequence[str] = ()) -> None:
        self.name, self._settings, self._before = name, dict(settings) | {"agent_id": name}, list(before)
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""
        self.start()

    def start(self) -> None:
        """Start the process; `address` tells when it listens."""
        # A node that comes back is the same node: it takes its address again.
        settings = self._settings | ({"bind": self._address} if self._address else {})
        arguments = msgspec.json.encode(settings).decode()
        self._address = ""
        self._process = subprocess.Popen(
            [*self._before, sys.executable, "-m", "tests.system.node_process", arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    @property
    def is_up(self) -> bool:
        """Whether the process was not killed."""
        return self._process is not None

    @property
    def address(self) -> str:
        """Where the node listens; waits until it does."""
        if self.is_up and not self._address:
            self._address = self._read(str)
        return self._address

    @property
    def contact(self) -> Contact:
        """The node."""
        return contact_of(self.address)

    def ask(self, do: str, answer: Any = None, **arguments: Any) -> Any:
        """Send a command and return its answer."""
        self.send(do, **arguments)
        return self.receive(answer)

    def send(self, do: str, **arguments: Any) -> None:
        """Send a command; its answer is `receive`d later, so that many nodes can work at a time."""
        assert self.address
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode({"do": do, **arguments}) + b"\n")
        self._process.stdin.flush()

    def receive(self, answer: Any) -> Any:
        """Return the answer to the oldest command that has none."""
        said = self._read(dict[str, msgspec.Raw])
        assert "ok" in said, f"{self.name}: {bytes(said['error']).decode()}"
        return msgspec.json.decode(said["ok"], type=answer)

    def kill(self) -> None:
        """kill -9: nobody is told."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def _read(self, kind: Any) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"node {self.name} ended"
        return msgspec.json.decode(line, type=kind)


@contextlib.contextmanager
def ended(nodes: list[NodeProcess]) -> Iterator[list[NodeProcess]]:
    """End all nodes whatever happens."""
    try:
        yield nodes
    finally:
        for node in nodes:
            node.kill()


def ask_all(nodes: Sequence[NodeProcess], do: str, answer: Any = None, **arguments: Any) -> list[Any]:
    """Send one command to all that are up, and return their answers."""
    up = [node for node in nodes if node.is_up]
    for node in up:
        node.send(do, **arguments)
    return [node.receive(answer) for node in up]


class SeenAgent:
    """One agent as it was when it was looked at: what the checkers take for its node and its disk."""

    def __init__(self, contact: Contact, seen: Seen | None, app: bytes) -> None:
        self.contact, self.is_up = contact, seen is not None
        self.node = self if seen is not None else None
        self.runtime = self
        self._seen = seen
        self.commits = seen.commits if seen else []
        self.controls = [(app, entry) for entry in seen.entries] if seen else []

    def tree(self, app: bytes) -> TreeView:
        """Return its place in the tree that it was asked about."""
        assert self._seen is not None
        return self._seen.place.view()

    def contacts(self) -> list[Contact]:
        """Return whom it knew."""
        assert self._seen is not None
        return [contact_of(address) for address in self._seen.known]

    def counted(self) -> Counter[str]:
        """Return how often each item is in a commit."""
        return Counter(item for commit in self.commits for item in unpack(commit.payload))


class SeenAgents:
    """All nodes at one moment, or as near to one as asking each allows; for `elf.overlay.sim.checkers`."""

    def __init__(self, nodes: Sequence[NodeProcess], app: bytes) -> None:
        answers = iter(ask_all(nodes, "look", Seen, app=app.hex()))
        self.machines = [SeenAgent(node.contact, next(answers) if node.is_up else None, app) for node in nodes]
        self.by_id = {machine.contact.id: machine for machine in self.machines}

    def up(self) -> list[SeenAgent]:
        """Return those that run."""
        return [machine for machine in self.machines if machine.is_up]

    def closest(self, key: bytes) -> SeenAgent:
        """Return the running agent nearest to a key."""
        return min(self.up(), key=lambda machine: distance(machine.contact.id, key))
