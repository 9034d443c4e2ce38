"""What is installed works: `python -P packaging/installed.py`, run by an environment that has elf, from any folder.

A query over a file; then three agents, a job published at one and asked for at another, an agent that is killed, and
what it counted, still there when it is back. Everything happens in a folder that is removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator

#: Nobody answers, or cannot answer yet: ask again.
UNAVAILABLE = 69
#: So long agents may take for anything, on a machine that is busy.
PATIENCE_S = 120.0
ELF = pathlib.Path(sysconfig.get_path("scripts")) / "elf"
AGENTS = 3
JOB = 'name = "hits"\ncreator = "shop"\nquery = "SELECT a, count(*) AS n FROM log GROUP BY a ORDER BY a"\n'
# No line has told the column's type yet.
JOB += '[columns]\na = "STRING"\n'


def elf(*arguments: str) -> str:
    """Run a command, and return what it prints; nothing, while no agent can answer it."""
    done = subprocess.run([ELF, *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, UNAVAILABLE):
        raise SystemExit(f"elf {' '.join(arguments)}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def until(what: str, holds: Callable[[], bool]) -> None:
    """Wait for something."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"not within {PATIENCE_S:.0f} s: {what}")
        time.sleep(0.5)


class Cluster:
    """Agents on this machine, each with a log of its own."""

    def __init__(self) -> None:
        ports = free_ports(2 * AGENTS)
        self._links = ports[:AGENTS]
        self._apis = ports[AGENTS:]
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self.urls = [f"http://127.0.0.1:{port}" for port in self._apis]
        for number in range(AGENTS):
            pathlib.Path(f"log{number}").touch()

    def start(self, number: int) -> None:
        """Start an agent."""
        command: list[str | pathlib.Path] = [ELF, "agent", "--source", f"log=log{number}", "--format", "json"]
        command += ["--time", "ts", "--data", f"data{number}", "--name", f"web{number}"]
        command += ["--bind", f"127.0.0.1:{self._links[number]}", "--api", f"127.0.0.1:{self._apis[number]}"]
        if number:
            command += ["--join", f"127.0.0.1:{self._links[0]}"]
        with open(f"err{number}", "ab") as errors:
            self._running[number] = subprocess.Popen(command, stderr=errors)

    def kill(self, number: int) -> None:
        """End an agent as a power failure would."""
        process = self._running.pop(number)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """End all agents, politely."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait(60)

    def write(self, number: int, values: str) -> None:
        """Log an event for each letter."""
        with open(f"log{number}", "a", encoding="ascii") as log:
            log.writelines(json.dumps({"ts": time.time_ns() // 1_000_000, "a": value}) + "\n" for value in values)


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Run agents for the length of a block, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        agents = Cluster()
        try:
            yield agents
        finally:
            agents.stop()
            os.chdir("/")


def counted(url: str) -> dict[str, int]:
    """Ask an agent for the job's result."""
    told = elf("query", "shop/hits", "--agent", url, "--json")
    return {row["a"]: row["n"] for row in json.loads(told)["rows"]} if told else {}


def main() -> None:
    """Raise SystemExit with a sentence if something does not work."""
    import elf as installed

    where = pathlib.Path(installed.__file__).resolve()
    if pathlib.Path(sysconfig.get_path("purelib")).resolve() not in where.parents:
        raise SystemExit(f"elf is imported from {where}, which is not what was installed")
    if elf("--version") != f"elf {installed.__version__}\n":
        raise SystemExit("elf --version does not tell the version")
    with cluster() as agents:
        agents.write(0, "xyx")
        text = "SELECT a, count(*) AS n FROM log GROUP BY a ORDER BY a"
        if elf("run", text, "--input", "log0", "--json").split() != ['{"a":"x","n":2}', '{"a":"y","n":1}']:
            raise SystemExit("elf run counts wrongly")
        pathlib.Path("log0").write_text("")
        for number in range(AGENTS):
            agents.start(number)
        first, *others = agents.urls
        until("three agents know each other", lambda: len(elf("members", "--agent", first).splitlines()) == AGENTS)
        pathlib.Path("hits.toml").write_text(JOB)
        elf("publish", "hits.toml", "--agent", first)
        until("the job is known everywhere", lambda: all(elf("jobs", "--agent", url) for url in agents.urls))
        # A total counts what an agent reads from when it has heard of the job on.
        time.sleep(3)
        for number, values in enumerate(("xx", "xy", "yyy")):
            agents.write(number, values)
        until("all events are counted once", lambda: counted(others[0]) == {"x": 3, "y": 4})
        agents.kill(2)
        agents.write(2, "xz")
        agents.start(2)
        agents.write(0, "z")
        until("what came while one was killed is counted once", lambda: counted(others[0]) == {"x": 4, "y": 4, "z": 2})
    print(f"elf {installed.__version__} works on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
