"""What the service manager hears, at a socket of our own in its place."""

from __future__ import annotations

import asyncio
import os
import pathlib
import socket
from collections.abc import Iterator

import pytest

from elf.agents.host.service_manager import ServiceManager


class Manager:
    """A socket that a service manager would listen at."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)

    def heard(self) -> list[str]:
        found = []
        while True:
            try:
                found += self.socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return found


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[tuple[Manager, str]]:
    name = f"elf-test-{os.getpid()}"
    named = {"path": (str(tmp_path / "notify"), str(tmp_path / "notify")), "abstract": (f"\0{name}", f"@{name}")}
    address, said = named[request.param]
    found = Manager(address)
    yield found, said
    found.socket.close()


def test_what_is_said_is_what_sd_notify_says(manager: tuple[Manager, str]) -> None:
    listener, address = manager
    environment = {"NOTIFY_SOCKET": address, "HOME": "/"}
    told = ServiceManager(environment)
    assert environment == {"HOME": "/"}  # children are not to speak for the agent
    told.status("not ready: no agent\nanswers")
    told.status("not ready: no agent answers")
    told.ready()
    told.reloading()
    told.stopping()
    status, ready, reloading, since, stopping = listener.heard()
    assert (status, ready, reloading, stopping) == (
        "STATUS=not ready: no agent answers", "READY=1", "RELOADING=1", "STOPPING=1",
    )  # fmt: skip
    name, _, usec = since.partition("=")
    assert name == "MONOTONIC_USEC" and int(usec) > 0


def test_nobody_listens_and_nothing_happens(tmp_path: pathlib.Path) -> None:
    for environment in ({}, {"NOTIFY_SOCKET": str(tmp_path / "none")}, {"NOTIFY_SOCKET": "vsock:1:2"}):
        ServiceManager(environment).ready()


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "often"}, None),
        ({}, None),
    ],
)
def test_a_watchdog_is_heeded_if_it_is_ours(environment: dict[str, str], seconds: float | None) -> None:
    assert ServiceManager(environment, 7).watchdog_s == seconds
    assert not environment


async def test_no_sign_of_life_without_progress_of_the_store(manager: tuple[Manager, str]) -> None:
    listener, address = manager
    told = ServiceManager({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "60000"})
    stuck, looks = asyncio.Event(), 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        if looks > 2:
            stuck.set()
            await asyncio.Event().wait()

    watching = asyncio.create_task(told.watch(look, lambda: "ready"))
    await stuck.wait()
    await asyncio.sleep(0.1)
    watching.cancel()
    heard = listener.heard()
    assert heard.count("WATCHDOG=1") == 2 and heard[0] == "STATUS=ready"
