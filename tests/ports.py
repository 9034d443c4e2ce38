"""Ports that nobody takes between their choice and their use: no other test process, no outgoing connection."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pathlib
import socket
import tempfile
from collections.abc import Iterator

#: Below those that the kernel gives to outgoing connections.
PORTS = range(20_000, 32_000)
BLOCK = 100


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free for TCP and UDP, and never the same one twice."""
    return next(_ports())


@functools.cache
def _ports() -> Iterator[int]:
    """The ports of the blocks that this process has locked; each stays locked until the process ends."""
    return _unlocked([])


def _unlocked(locked: list[int]) -> Iterator[int]:
    blocks = range(0, len(PORTS), BLOCK)
    # One that ended a moment ago may have left connections behind: begin elsewhere.
    begin = os.getpid() % len(blocks)
    for place in [*blocks[begin:], *blocks[:begin]]:
        with contextlib.suppress(OSError):
            locked.append(_lock(PORTS[place]))
            yield from filter(_is_free, PORTS[place : place + BLOCK])
    raise AssertionError(f"all ports from {PORTS.start} to {PORTS.stop} are taken by test processes")


def _lock(first: int) -> int:
    path = pathlib.Path(tempfile.gettempdir(), f"elf-tests-ports-{first}.lock")
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise
    return file


def _is_free(port: int) -> bool:
    with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        try:
            tcp.bind(("127.0.0.1", port))
            udp.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
