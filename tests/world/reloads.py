"""Agents whose settings are changed as they run, a third of the times to what cannot be, beside all that befalls them.

Owns which settings a host's agent is told to take, drawn from a seed, and that those it refuses change nothing; that
every event is counted once whatever was changed is in `checkers`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from msgspec.structs import replace

from elf.agents.errors import ConfigError, ElfError
from elf.agents.http.agent_service import Service
from elf.agents.settings.config import AgentConfig, PrivacySection
from tests.world.faults import Faults
from tests.world.truth import LOGGED, PUSHED
from tests.world.world import UnansweredError

#: A third of what people write is broken.
BROKEN_SHARE = 1 / 3


class Reloads(Faults):
    """Faults, and people who change settings."""

    KINDS = (*Faults.KINDS, *("reload",) * 24)

    def reload(self) -> bool:
        """Change the settings of an agent, and have it read them."""
        host = self._victim()
        if host is None:
            return False
        is_broken = self.rng.random() < BROKEN_SHARE
        edit = self._edit()
        how = self.rng.choice(_WAYS) if is_broken else None
        if how is None:
            host.edit = edit  # what is in the file when the agent starts again, whatever became of it

        def load() -> AgentConfig:
            config = edit(host.world.configure(host))
            return config if how is None else how(config)

        async def ask(service: Service) -> None:
            agent = host.agent
            assert agent is not None
            agent.reconfiguration.load = load
            held = agent.config
            try:
                await service.reload()
            except ElfError:
                assert agent.config is held and agent.reconfiguration.notes(), "half of a change"
                self.counts["refused"] += 1
            else:
                assert how is None and not agent.reconfiguration.notes(), "taken, though it is broken"
                self.counts["taken"] += 1

        async def change() -> None:
            with contextlib.suppress(UnansweredError):
                await host.ask(ask, seconds=60.0)

        self._beside(change())
        return True

    def _edit(self) -> Callable[[AgentConfig], AgentConfig]:
        """Draw settings that count the same events."""
        rng = self.rng
        checkpoint_ms, chunk_bytes = rng.choice((200, 1_000)), rng.choice((65_536, 1 << 20))
        spelling, ahead_max = rng.choice(("access.log", "acces[s].log", "a*ss.log")), rng.choice(("1d", "7d", ""))
        format, drop = rng.choice(("", "json", ["json"])), rng.choice(([], ["unheard"]))

        def edit(config: AgentConfig) -> AgentConfig:
            sources = {name: replace(each, format=format, ahead_max=ahead_max) for name, each in config.sources.items()}
            path = sources[LOGGED].path.replace("access.log", spelling)
            sources[LOGGED] = replace(sources[LOGGED], path=path)
            sources[PUSHED] = replace(sources[PUSHED], privacy=PrivacySection(drop=drop))
            section = replace(config.agent, checkpoint_ms=checkpoint_ms, chunk_bytes=chunk_bytes)
            return replace(config, agent=section, sources=sources)

        return edit


def _unreadable(config: AgentConfig) -> AgentConfig:
    raise ConfigError("agent.toml:3:1: not TOML: what is there is no setting")


def _nonsense(config: AgentConfig) -> AgentConfig:
    return replace(config, sources={**config.sources, "more": replace(config.sources[LOGGED], format="$nonsense{")})


def _fixed(config: AgentConfig) -> AgentConfig:
    return replace(config, agent=replace(config.agent, name="another"))


def _late(config: AgentConfig) -> AgentConfig:
    """Fail at the last source, after others were made and read to their ends."""
    key = PrivacySection(ip="hash", key_file="/nowhere")
    return replace(config, sources={**config.sources, LOGGED: replace(config.sources[LOGGED], privacy=key)})


_WAYS = (_unreadable, _nonsense, _fixed, _late)
