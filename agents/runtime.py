"""The process of one agent: started, served over HTTP, and stopped by a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import pathlib
import signal
from collections.abc import Callable

from elf.agents.agent import Agent
from elf.agents.errors import ConfigError
from elf.agents.host.private_folder import UMASK, close_folder
from elf.agents.http.agent_service import Service
from elf.agents.http.app import make_app, serve
from elf.agents.http.callers import Callers, callers_of_this_user
from elf.agents.settings.config import AgentConfig
from elf.agents.settings.secret_files import read_secret_file

log = logging.getLogger(__name__)

TOKEN_BYTES_MIN = 16
#: In the data folder: the token that an agent has made for itself.
TOKEN_NAME = "api.token"


async def run(config: AgentConfig, ready: Callable[[str], None] | None = None) -> None:
    """Run an agent until SIGTERM or SIGINT.

    Args:
        config: the settings.
        ready: called with the API's URL once the agent serves.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    os.umask(UMASK)
    close_folder(pathlib.Path(config.agent.data))
    token, callers = door_of(config)
    agent = Agent(config)
    try:
        agent.doubles.on_refusal = stopping.set
        await agent.start()
        app = make_app(Service(agent), token=token, request_bytes_max=config.api.request_bytes_max, callers=callers)
        async with serve(app, config.api.bind) as url:
            if ready is not None:
                ready(url)
            await stopping.wait()
        if agent.doubles.refusal is not None:
            raise agent.doubles.refusal
    finally:
        await agent.stop()


def door_of(config: AgentConfig) -> tuple[str | None, Callers | None]:
    """Return the API's token, and who may leave it out; no token: the API is open."""
    if config.api.open:
        log.warning("api.open = true: every user of this machine, and what forwards to it, may use the API")
        return None, None
    if config.api.token_file:
        return read_token(config.api.token_file), None
    file = pathlib.Path(config.agent.data) / TOKEN_NAME
    if not file.exists():
        _make_token(file)
        log.info("the API's token is in %s; this user and root need none on this machine", file)
    return read_token(str(file)), callers_of_this_user()


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
