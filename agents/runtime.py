"""The process of one agent: started, served over HTTP, and stopped by a signal."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
from collections.abc import Callable

from elf.agents.agent import Agent
from elf.agents.errors import ConfigError
from elf.agents.host.private_folder import UMASK, close_folder
from elf.agents.http.agent_service import Service
from elf.agents.http.app import make_app, serve
from elf.agents.settings.config import AgentConfig
from elf.agents.settings.secret_files import read_secret_file

TOKEN_BYTES_MIN = 16


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
    token = read_token(config.api.token_file)
    os.umask(UMASK)
    close_folder(pathlib.Path(config.agent.data))
    agent = Agent(config)
    try:
        agent.doubles.on_refusal = stopping.set
        await agent.start()
        app = make_app(Service(agent), token=token, request_bytes_max=config.api.request_bytes_max)
        async with serve(app, config.api.bind) as url:
            if ready is not None:
                ready(url)
            await stopping.wait()
        if agent.doubles.refusal is not None:
            raise agent.doubles.refusal
    finally:
        await agent.stop()


def read_token(path: str) -> str | None:
    """Read the API token; raises ConfigError when the file cannot be used."""
    if not path:
        return None
    token = read_secret_file("api.token_file", path)
    if len(token) < TOKEN_BYTES_MIN or not token.isascii():
        wanted = f"at least {TOKEN_BYTES_MIN} ASCII characters"
        raise ConfigError(f"api.token_file = {path!r} does not hold {wanted}; make one with `elf keygen`")
    return token.decode()
