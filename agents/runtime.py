"""The process of one agent: started, served over HTTP, and stopped by a signal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pathlib
import signal
import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from elf.agents.agent import Agent
from elf.agents.errors import ConfigError, ElfError
from elf.agents.host.private_folder import UMASK, close_folder
from elf.agents.host.service_manager import ServiceManager
from elf.agents.http.agent_service import Service
from elf.agents.http.app import ADMISSION, make_app, serve
from elf.agents.http.callers import Callers, callers_of_this_user
from elf.agents.identity import PLACE
from elf.agents.settings.config import AgentConfig
from elf.agents.settings.secret_files import read_secret_file

log = logging.getLogger(__name__)

TOKEN_BYTES_MIN = 16
#: In the data folder: the token that an agent has made for itself.
TOKEN_NAME = "api.token"
#: How often the service manager is told how the agent is, and, before it has met another one, whether it has.
LOOK_S, JOIN_LOOK_S = 5.0, 0.2


class ApiDoor(NamedTuple):
    """Who is let in to the API.

    Attributes:
        token: what callers send; None: the API is open.
        callers: knows who of this machine may leave it out; None: nobody.
        is_new: the token was made just now, and nobody can know it yet.
    """

    token: str | None
    callers: Callers | None
    is_new: bool = False


async def run(
    config: AgentConfig,
    ready: Callable[[str, str | None], None] | None = None,
    load: Callable[[], AgentConfig] | None = None,
    drain_s: float | None = None,
) -> None:
    """Run an agent until SIGTERM or SIGINT; SIGHUP has it read its settings again.

    Args:
        config: the settings.
        ready: called once the agent serves with the API's URL, and with its token if that was made just now: a secret,
            for whoever started the agent.
        load: reads the settings again; raises ConfigError.
        drain_s: SIGTERM has the agent hand on what it has first, in that time at most; None: it ends at once.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    os.umask(UMASK)
    close_folder(pathlib.Path(config.agent.data))
    door = door_of(config)
    manager = ServiceManager(os.environ)
    agent = Agent(config)
    agent.reconfiguration.load = load
    agent.reconfiguration.on_reload = lambda is_begun: manager.reloading() if is_begun else manager.ready()
    # Not before: until then it would end the agent, which who sends it is to see.
    loop.add_signal_handler(signal.SIGHUP, lambda: agent.means.spawn(_reload(agent)))
    try:
        agent.doubles.on_refusal = stopping.set
        await agent.start()
        service, audit_log = Service(agent), agent.stores.audit
        agent.on_departed = stopping.set
        if drain_s is not None:
            loop.add_signal_handler(
                signal.SIGTERM, lambda: agent.means.spawn(_drain(agent, service, drain_s, stopping))
            )
        app = make_app(
            service,
            token=door.token,
            request_bytes_max=config.api.request_bytes_max,
            callers=door.callers,
            audit_log=audit_log,
        )
        admission = app[ADMISSION]

        def renew(_: AgentConfig, new: AgentConfig) -> Callable[[], None]:
            door = door_of(new)
            return lambda: admission.admit(door.token, door.callers)

        agent.reconfiguration.parts.append(renew)
        async with serve(app, config.api.bind) as url:
            if ready is not None:
                ready(url, door.token if door.is_new else None)
            agent.means.spawn(_tell(manager, agent, service))
            await stopping.wait()
        if agent.doubles.refusal is not None:
            raise agent.doubles.refusal
    finally:
        manager.stopping()
        loop.remove_signal_handler(signal.SIGHUP)
        await agent.stop()


async def _reload(agent: Agent) -> None:
    """Read the settings again; what is wrong with them is logged, and shown by `/readyz`."""
    with contextlib.suppress(ElfError):
        await agent.reconfiguration.reload()


async def _drain(agent: Agent, service: Service, within_s: float, stopping: asyncio.Event) -> None:
    """Take the agent out of service; asked again, end it at once."""
    if service.departure.is_under_way:
        stopping.set()
    await service.drain(within_s)


async def _tell(manager: ServiceManager, agent: Agent, service: Service) -> None:
    """Tell the service manager once the agent has met others, and from then on how it is."""
    while not agent.neighbours.entering.joined:
        manager.status(_described(service))
        manager.wait_on(LOOK_S)
        await asyncio.sleep(JOIN_LOOK_S)
    manager.ready()

    async def look() -> None:
        # A full disk is no reason to begin anew: all goes on by itself. One that does not answer is.
        with contextlib.suppress(sqlite3.Error):
            await asyncio.to_thread(agent.stores.database.recall, PLACE)

    await manager.watch(look, lambda: _described(service), LOOK_S)


def _described(service: Service) -> str:
    is_ready, reasons = service.ready()
    notes = "; ".join(service.notes()) if is_ready else "; ".join(reasons)
    return ("ready" if is_ready else "not ready") + (f": {notes}" if notes else "")


def door_of(config: AgentConfig) -> ApiDoor:
    """Return who is let in to the API; an agent that was given no token makes one, once and for all."""
    if config.api.open:
        log.warning("api.open = true: every user of this machine, and what forwards to it, may use the API")
        return ApiDoor(None, None)
    if config.api.token_file:
        return ApiDoor(read_token(config.api.token_file), None)
    file = pathlib.Path(config.agent.data) / TOKEN_NAME
    is_new = not file.exists()
    if is_new:
        _make_token(file)
        log.info("the API's token is in %s; this user and root need none on this machine", file)
    return ApiDoor(read_token(str(file)), callers_of_this_user(), is_new)


def _make_token(file: pathlib.Path) -> None:
    fresh = file.with_name(file.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as opened:
        opened.write(os.urandom(32).hex() + "\n")
        opened.flush()
        os.fsync(opened.fileno())
    fresh.replace(file)


def read_token(path: str) -> str:
    """Read the API token; raises ConfigError when the file cannot be used."""
    token = read_secret_file("api.token_file", path)
    if len(token) < TOKEN_BYTES_MIN or not token.isascii():
        wanted = f"at least {TOKEN_BYTES_MIN} ASCII characters"
        raise ConfigError(f"api.token_file = {path!r} does not hold {wanted}; make one with `elf keygen`")
    return token.decode()
