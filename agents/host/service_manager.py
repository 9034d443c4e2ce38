"""What an agent tells the service manager that has started it (sd_notify(3)), and when it may say that it is alive.

The protocol is datagrams of `NAME=VALUE` lines to a socket that the environment names. Alive is who makes progress: the
event loop sends the sign, and the store has taken a look at its disk since the last one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping

#: A sign of life comes so many times within the time that silence may last.
SIGNS = 3
#: What is told of the state at most; it is one line.
STATUS_CHARS_MAX = 300


class ServiceManager:
    """Whoever has started this process and wants to hear of it; nobody, mostly.

    Args:
        environment: of this process; what is for it alone is taken out, so that children do not speak for it.
        process: this process.
    """

    def __init__(self, environment: dict[str, str] | os._Environ[str], process: int | None = None) -> None:
        address = environment.pop("NOTIFY_SOCKET", "")
        # A leading @ stands for the zero of a name that is in no file system.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s = _watchdog_s(environment, os.getpid() if process is None else process)
        self._status = ""
        self._waited_s = float("-inf")
        for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
            environment.pop(name, None)

    def tell(self, *lines: str) -> None:
        """Send some lines, if anybody listens; a manager that does not is no trouble of the agent's."""
        if not self._address.startswith(("/", "\0")):
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out,
        ):
            out.setblocking(False)
            out.sendto("\n".join(lines).encode(errors="replace"), self._address)

    def ready(self) -> None:
        """Say that the agent serves, or that new settings hold."""
        self.tell("READY=1")

    def wait_on(self, seconds: float) -> None:
        """Say that the start goes on, and takes so long yet at least; once in a while is enough."""
        now_s = time.monotonic()
        if now_s - self._waited_s >= seconds / 2:
            self._waited_s = now_s
            self.tell(f"EXTEND_TIMEOUT_USEC={int(2 * seconds * 1e6)}")

    def reloading(self) -> None:
        """Say that settings are read again; `ready` ends that."""
        self.tell("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000}")

    def stopping(self) -> None:
        """Say that the agent ends."""
        self.tell("STOPPING=1")

    def status(self, sentence: str) -> None:
        """Show people how it is, if that has changed."""
        line = " ".join(sentence.split())[:STATUS_CHARS_MAX]
        if line != self._status:
            self._status = line
            self.tell(f"STATUS={line}")

    async def watch(
        self, look: Callable[[], Awaitable[None]], describe: Callable[[], str], look_s: float = 5.0
    ) -> None:
        """Show how the agent is, and that it makes progress, for as long as it runs.

        Args:
            look: takes a look at the store's disk; as long as it does not come back, or fails, there is no progress.
            describe: says how the agent is.
            look_s: pause between two looks, where nobody watches.
        """
        pause_s = look_s if self.watchdog_s is None else min(look_s, self.watchdog_s / SIGNS)
        while self._address:
            self.status(describe())
            if self.watchdog_s is not None:
                with contextlib.suppress(OSError, TimeoutError):
                    await look()
                    self.tell("WATCHDOG=1")
            await asyncio.sleep(pause_s)


def _watchdog_s(environment: Mapping[str, str], process: int) -> float | None:
    """Return how long silence may last; None: as long as it likes."""
    usec, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not (usec.isascii() and usec.isdigit() and int(usec)) or pid not in ("", str(process)):
        return None
    return int(usec) / 1e6
