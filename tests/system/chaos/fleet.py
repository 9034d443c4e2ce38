"""Agents as processes, each on a host of its own where namespaces can be made, and what is done to them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from tests.system.chaos.plan import Fault
from tests.system.cluster import AgentProcess
from tests.system.namespaces import Host, can_make_hosts, hosts

T = TypeVar("T")
SOURCE = "numbers"
#: Types are declared, so that jobs can be published before the first line is written.
COLUMNS = {"origin": "STRING", "kind": "BIGINT", "number": "BIGINT"}


class Member:
    """One agent, its log, its host (None on loopback) and what is being done to it."""

    def __init__(self, agent: AgentProcess, log: pathlib.Path, host: Host | None) -> None:
        self.agent, self.log, self.host = agent, log, host
        #: None, or what has befallen it.
        self.state: str | None = None
        self.deaf = False
        self._calls = concurrent.futures.ThreadPoolExecutor(1, self.agent.name, self.enter)

    @property
    def name(self) -> str:
        return self.agent.name

    def enter(self) -> None:
        """Move the calling thread to where the agent's API can be reached."""
        if self.host is not None:
            self.host.enter()

    def call(self, work: Callable[[], T]) -> T:
        """Do something on the agent's host and return what it gives."""
        return self._calls.submit(work).result()

    def signal(self, number: int) -> None:
        """Send a signal to the agent's process."""
        if self.agent.process is not None:
            os.kill(self.agent.process.pid, number)

    def end(self) -> None:
        """End the process whatever state it is in."""
        self._calls.shutdown(cancel_futures=True)
        self.signal(signal.SIGCONT)
        self.agent.kill()


class Fleet:
    """All members; `masters` names the jobs' masters by address, as last heard of."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = list(members)
        self.masters: dict[str, str] = {}
        self.done: Counter[str] = Counter()
        #: Agents that ended though nobody killed them.
        self.crashed: list[str] = []
        self.log: list[str] = []
        self._undo: list[tuple[float, Callable[[], None]]] = []
        self._began_s = time.monotonic()

    @property
    def on_hosts(self) -> bool:
        return all(member.host is not None for member in self.members)

    def weather(self, faults: Sequence[Fault], duration_s: float, stop: threading.Event) -> None:
        """Let the faults happen, each at its time, or as soon after as there is somebody to strike."""
        self._began_s = time.monotonic()
        for fault in faults:
            self._wait(self._began_s + fault.at_s, stop)
            while not self._strike(fault) and not stop.is_set():
                self._wait(time.monotonic() + 0.1, stop)
        self._wait(self._began_s + duration_s, stop)

    def heal(self) -> None:
        """Undo everything: all agents run, and hear each other."""
        for _, undo in sorted(self._undo, key=lambda each: each[0]):
            undo()
        self._undo.clear()
        self.look()

    def stop(self) -> None:
        """Let all agents save and leave."""
        for member in self.members:
            member.signal(signal.SIGTERM)
        for member in self.members:
            member.agent.stop()

    def _wait(self, until_s: float, stop: threading.Event) -> None:
        while not stop.is_set():
            now_s = time.monotonic()
            due = [each for each in self._undo if each[0] <= now_s]
            for each in due:
                self._undo.remove(each)
                each[1]()
            self.look()
            if now_s >= until_s:
                return
            next_s = min([until_s, *(at_s for at_s, _ in self._undo)])
            stop.wait(min(0.1, max(0.001, next_s - now_s)))

    def look(self) -> None:
        """Start again, and remember, what ended of itself."""
        for member in self.members:
            process = member.agent.process
            if member.state is None and process is not None and process.poll() is not None:
                self.crashed.append(f"{member.name} ended with {process.returncode}: {member.agent.messages()[-2000:]}")
                member.agent.launch()

    def _strike(self, fault: Fault) -> bool:
        """Let one fault happen; return False if nobody is up who could be struck now."""
        up = [member for member in self.members if member.state is None]
        if fault.kind == "cut":
            up = [member for member in up if not member.deaf]
        masters = [member for member in up if member.agent.overlay in self.masters.values()]
        pool = masters if fault.at_master and masters else up
        if fault.kind == "cut" and not self.on_hosts:
            return True
        if not pool:
            return False
        victim = pool[int(fault.rank * len(pool))]
        self.done[fault.kind] += 1
        self.done[f"{fault.kind} of a master"] += victim in masters
        self.log.append(f"{time.monotonic():.1f} {fault.kind} {victim.name} for {fault.seconds:.1f} s")
        getattr(self, f"_{fault.kind}")(victim, fault)
        return True

    def _later(self, seconds: float, undo: Callable[[], None]) -> None:
        self._undo.append((time.monotonic() + seconds, undo))

    def _kill(self, member: Member, fault: Fault) -> None:
        def again() -> None:
            member.agent.launch()
            member.state = None

        member.agent.kill()
        member.state = "killed"
        self._later(fault.seconds, again)

    def _stop(self, member: Member, fault: Fault) -> None:
        def go_on() -> None:
            member.signal(signal.SIGCONT)
            member.state = None

        member.signal(signal.SIGSTOP)
        member.state = "stopped"
        self.done[f"stop of {fault.seconds:.0f} s"] += 1
        self._later(fault.seconds, go_on)

    def _cut(self, member: Member, fault: Fault) -> None:
        def hear() -> None:
            assert member.host is not None
            member.host.hear()
            member.deaf = False

        others = [other.host for other in self.members if other is not member and other.host is not None]
        count = max(1, round(fault.breadth * len(others)))
        assert member.host is not None
        member.host.deaf_to(*random.Random(fault.rank).sample(others, count))
        member.deaf = True
        self._later(fault.seconds, hear)


def get(member: Member, path: str, timeout_s: float = 10.0) -> Any:
    """Ask an agent's API, from a thread that has entered its host."""
    import urllib.request

    with urllib.request.urlopen(member.agent.url + path, timeout=timeout_s) as answer:
        return json.load(answer)


@contextlib.contextmanager
def running(folder: pathlib.Path, count: int) -> Iterator[Fleet]:
    """Start a fleet, each agent with an empty log, and end it whatever happens."""
    with contextlib.ExitStack() as stack:
        machines = stack.enter_context(hosts(count)) if can_make_hosts() else [None] * count
        secret = folder / "secret"
        secret.write_text(secrets.token_hex(32) + "\n")
        secret.chmod(0o600)
        members: list[Member] = []
        for number, host in enumerate(machines, start=1):
            name = f"web{number:02}"
            log = folder / f"{name}.log"
            log.touch()
            agent = AgentProcess(
                folder,
                name,
                {SOURCE: {"path": str(log), "columns": COLUMNS}},
                # Two to meet at, for either may be down when another starts.
                [member.agent.overlay for member in members[:2]],
                overlay={"secret_file": str(secret)},
                before=host.before if host else (),
                addresses=(f"{host.address}:4250", "127.0.0.1:4260") if host else None,
            )
            members.append(Member(agent, log, host))
            stack.callback(members[-1].end)
        for member in members:
            member.agent.launch()
        yield Fleet(members)
