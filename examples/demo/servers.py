"""Web servers on this machine, for demonstrations: an agent, a log and whoever writes it for each of them."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import signal
import socket
import subprocess
import sys
from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import Any

import elf
from elf.agents.errors import ElfError

#: An agent starts in a second or two; a slow machine gets this long.
START_S = 60.0


class Servers:
    """Some web servers: agents `web1`, `web2`, ... as processes, each with a folder, a log and whoever writes it.

    Args:
        folder: for all of them.
        agents: how many.
        rate: of events, per second and log.
        seed: of the first writer; the others count on.
        writers: source -> the module that writes its logs.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        agents: int,
        rate: float,
        seed: int,
        writers: Mapping[str, str] = MappingProxyType({"clicks": "examples.demo.clicks"}),
    ) -> None:
        self.folder = folder
        self.rate = rate
        self.seed = seed
        self._writers = dict(writers)
        ports = _free_ports(2 * agents)
        self.overlay = ports[:agents]
        self.api = ports[agents:]
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def urls(self) -> list[str]:
        """The agents' APIs."""
        return [f"http://127.0.0.1:{port}" for port in self.api]

    @property
    def archives(self) -> list[pathlib.Path]:
        """The agents' archives."""
        return [self.folder / f"web{number}" / "archive" for number in range(1, len(self.api) + 1)]

    def start(self) -> None:
        """Start writers and agents."""
        for index, (overlay, api) in enumerate(zip(self.overlay, self.api, strict=True)):
            name = f"web{index + 1}"
            sources: list[str] = []
            for source, writer in self._writers.items():
                log = self.folder / f"{name}-{source}.log"
                drawn = ["--rate", str(self.rate), "--seed", str(self.seed + index)]
                self._spawn(writer, "--live", *drawn, "--out", str(log))
                sources += ["--source", f"{source}={log}"]
            join = ["--join", f"127.0.0.1:{self.overlay[0]}"] if index else []
            bound = ["--bind", f"127.0.0.1:{overlay}", "--api", f"127.0.0.1:{api}"]
            placed = ["--name", name, "--data", str(self.folder / name), *bound]
            self._spawn("elf", "agent", *sources, "--format", "json", *placed, *join, log=name)

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

    def stop(self) -> None:
        """End every process that was started, and wait until it is gone."""
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def failed(self) -> str | None:
        """Return what a process that ended by itself had to say."""
        for process in self._processes:
            if process.poll() is not None:
                command = " ".join(str(word) for word in list(process.args)[2:])  # type: ignore[arg-type]
                logs = "\n".join(path.read_text()[-1_000:] for path in sorted(self.folder.glob("*.err")))
                return f"this process ended with exit code {process.returncode}: {command}\n{logs}"
        return None

    def _spawn(self, module: str, *arguments: str, log: str | None = None) -> None:
        messages = (self.folder / f"{log}.err").open("wb") if log else subprocess.DEVNULL
        # A session of its own: Ctrl-C reaches the demo alone, which then ends its processes in order.
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=messages,
            start_new_session=True,
        )
        self._processes.append(process)


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
    """Return ports of loopback that are free now, for TCP and UDP."""
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        while len(ports) < count:
            tcp, udp = (
                stack.enter_context(socket.socket(socket.AF_INET, kind))
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)
            )
            tcp.bind(("127.0.0.1", 0))
            with contextlib.suppress(OSError):
                udp.bind(tcp.getsockname())
                ports.append(tcp.getsockname()[1])
        return ports
