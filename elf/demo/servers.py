"""Web servers on this machine, for demonstrations: an agent, a log and whoever writes it for each of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import Any

import elf
from elf.agents.errors import ElfError
from elf.demo.ties import Ties

LOOPBACK = "127.0.0.1"
#: Below those that Linux gives to outgoing connections.
PORTS = range(20_000, 32_000)
#: The source of the shop's click stream.
CLICKS = "clicks"
#: An agent starts in a second or two; a slow machine gets this long.
START_S = 60.0


class Servers:
    """Some web servers: agents `web1`, `web2`, ... as processes, each with a folder, a log and whoever writes it.

    Args:
        folder: for all of them; it is removed when the last process has ended.
        agents: how many.
        rate: of events, per second and log.
        seed: of the first writer; the others count on.
        writers: source -> the module that writes its logs; empty: whoever asks does, `log_of` says where.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        agents: int,
        rate: float,
        seed: int,
        writers: Mapping[str, str] = MappingProxyType({CLICKS: "elf.demo.clicks"}),
    ) -> None:
        self.folder = folder
        self.rate = rate
        self.seed = seed
        self._writers = dict(writers)
        ports = _free_ports(2 * agents)
        self.overlay = ports[:agents]
        self.api = ports[agents:]
        self._ties: Ties | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        self._agents: list[subprocess.Popen[bytes]] = []
        self._killed: set[subprocess.Popen[bytes]] = set()

    @property
    def urls(self) -> list[str]:
        """The agents' APIs."""
        return [f"http://127.0.0.1:{port}" for port in self.api]

    @property
    def archives(self) -> list[pathlib.Path]:
        """The agents' archives."""
        return [self.folder / f"web{number}" / "archive" for number in range(1, len(self.api) + 1)]

    def log_of(self, index: int, source: str) -> pathlib.Path:
        """The log of a server, which is counted from 0."""
        return self.folder / f"web{index + 1}-{source}.log"

    def start(self) -> None:
        """Start writers and agents."""
        self._ties = Ties(self.folder)
        for index, (overlay, api) in enumerate(zip(self.overlay, self.api, strict=True)):
            name = f"web{index + 1}"
            sources: list[str] = []
            for source, writer in self._writers.items():
                log = self.log_of(index, source)
                drawn = ["--rate", str(self.rate), "--seed", str(self.seed + index)]
                if writer:
                    self._spawn(self._ties, writer, "--live", *drawn, "--out", str(log))
                sources += ["--source", f"{source}={log}"]
            join = ["--join", f"127.0.0.1:{self.overlay[0]}"] if index else []
            bound = ["--bind", f"127.0.0.1:{overlay}", "--api", f"127.0.0.1:{api}"]
            placed = ["--name", name, "--data", str(self.folder / name), *bound]
            words = ["agent", *sources, "--format", "json", *placed, *join]
            self._agents.append(self._spawn(self._ties, "elf", *words, log=name))

    async def wait_together(self) -> None:
        """Wait until each agent answers and knows all others.

        Raises:
            ElfError: a process has ended by itself.
            TimeoutError: they do not find each other in `START_S`.
        """
        async with asyncio.timeout(START_S):
            for url in self.urls:
                # What has ended by itself is to be noticed soon.
                async with elf.connect(url, timeout=2) as client:
                    known = 0
                    while known < len(self.urls):
                        if failure := self.failed():
                            raise ElfError(failure)
                        with contextlib.suppress(ElfError):
                            known = len(await client.members())
                        await asyncio.sleep(0 if known == len(self.urls) else 0.1)

    def kill(self, index: int) -> None:
        """Kill a server's agent, counted from 0, as if its machine had failed; its log is written on."""
        self._killed.add(self._agents[index])
        self._agents[index].kill()

    def stop(self) -> None:
        """End every process that was started, wait until it is gone, and remove the folder."""
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._ties is not None:
            self._ties.cut()
            self._ties = None

    def failed(self) -> str | None:
        """Return what a process that ended by itself had to say."""
        for process in self._processes:
            if process.poll() is not None and process not in self._killed:
                command = " ".join(str(word) for word in list(process.args)[3:])  # type: ignore[arg-type]
                logs = "\n".join(path.read_text()[-1_000:] for path in sorted(self.folder.glob("*.err")))
                return f"this process ended with exit code {process.returncode}: {command}\n{logs}"
        return None

    def _spawn(self, ties: Ties, module: str, *arguments: str, log: str | None = None) -> subprocess.Popen[bytes]:
        with (self.folder / f"{log}.err").open("wb") if log else open(os.devnull, "wb") as messages:
            process = ties.begin(module, *arguments, messages=messages)
        self._processes.append(process)
        return process


async def until_stopped(show: Coroutine[Any, Any, None], seconds: float | None = None) -> None:
    """Show something until it ends, Ctrl-C, SIGTERM or the time is up."""
    task = asyncio.create_task(show)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _free_ports(count: int) -> list[int]:
    """Return ports of loopback that are free now, for TCP and UDP, and that no outgoing connection is given.

    Drawn, so that two demonstrations that begin at once hardly meet.
    """
    ports: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with (
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
            contextlib.suppress(OSError),
        ):
            tcp.bind((LOOPBACK, port))
            udp.bind((LOOPBACK, port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise ElfError(f"this machine has no {count} free ports from {PORTS.start} to {PORTS.stop}")
