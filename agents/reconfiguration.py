"""New settings for an agent that runs: read whole, made beside what runs, put in its place at one point, or not at all.

Owns which settings can be changed so, which hold, and what became of the last attempt. What each of them means is its
parts' business: a part makes what is new and says how it is put in place, which cannot fail.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import msgspec

from elf.agents.changed_sources import SourceChange
from elf.agents.departure import Departure
from elf.agents.errors import ConfigError, ElfError, UnavailableError
from elf.agents.host.means import Means
from elf.agents.host.neighbours import Neighbours
from elf.agents.master_side import MasterSide
from elf.agents.membership import Membership
from elf.agents.settings.config import AgentConfig, overlay_settings
from elf.agents.wire.positions import Json
from elf.agents.worker_side import WorkerSide
from elf.overlay.errors import OverlayError
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: What may change while an agent runs, beside its sources; all else is said at its start only.
RELOADABLE = frozenset(
    {
        "agent.checkpoint_ms",
        "agent.chunk_bytes",
        "agent.log_level",
        "api.open",
        "api.operators",
        "api.token_file",
        "archive.bytes_max",
        "archive.retain",
        "archive.rows_max",
        "overlay.join",
        "overlay.secret_file",
        "overlay.tls_ca_file",
        "overlay.tls_cert_file",
        "overlay.tls_key_file",
        "overlay.tls_revoked_file",
    }
)

#: Makes what settings want anew, and returns what puts it in place; raises ConfigError or OverlayError.
Part = Callable[[AgentConfig, AgentConfig], Callable[[], None]]


class Reconfiguration:
    """The settings of one agent.

    Args:
        config: those that it starts with.
        now_ms: wall clock.
    """

    def __init__(self, config: AgentConfig, now_ms: Callable[[], int]) -> None:
        self.config = config
        #: Since when these hold.
        self.since_ms = now_ms()
        #: Why the last attempt to change them changed nothing; None if it did, or there was none.
        self.failure: str | None = None
        #: Reads the settings as they are to be; None for an agent that was not started from any file.
        self.load: Callable[[], AgentConfig] | None = None
        #: Told that settings are being read again, and that this is over; for whoever watches over the process.
        self.on_reload: Callable[[bool], None] = lambda is_begun: None
        self.parts: list[Part] = []
        #: How this agent leaves all of them; there once its parts are.
        self.departure: Departure | None = None
        #: What is to hold again if this agent, which leaves, stays after all; None while it does not leave.
        self.left: AgentConfig | None = None
        self._now_ms = now_ms
        self._change: Callable[[AgentConfig, AgentConfig], SourceChange] | None = None
        self._lock = asyncio.Lock()

    def compose(
        self,
        node: OverlayNode,
        neighbours: Neighbours,
        membership: Membership,
        jobs: MasterSide,
        sources: WorkerSide,
        means: Means,
    ) -> None:
        """Take the parts of the agent that settings are about."""

        def change(old: AgentConfig, new: AgentConfig) -> SourceChange:
            return SourceChange(sources, membership, old, new, means, jobs)

        def renewal(old: AgentConfig, new: AgentConfig) -> Callable[[], None]:
            """Make what is to change of the overlay: its secret, certificates, and the agents to join."""
            put, overlay = node.renewal(overlay_settings(new, membership.agent_id)), new.overlay

            def swap() -> None:
                put()
                membership.passport.renew(overlay)
                if old.overlay.join != overlay.join and neighbours.entering.reseed(overlay.join):
                    means.spawn(neighbours.entering.run())

            return swap

        def limits(_: AgentConfig, new: AgentConfig) -> Callable[[], None]:
            """Return what puts in place what is a number, or a name, only."""

            def swap() -> None:
                logging.getLogger().setLevel(new.agent.log_level.upper())
                jobs.catalogue.purges.operators = dict(new.api.operators)
                if sources.keeper is not None:
                    sources.keeper.retain_ms = new.archive.retain_ms
                    sources.keeper.bytes_max = new.archive.bytes_max or None

            return swap

        self.departure = Departure(membership.agent_id, node, jobs, sources, self)
        self._change = change
        self.parts += [renewal, limits]

    async def reload(self) -> Json:
        """Read the settings again and let them hold, all of them or none.

        Returns:
            `{"changed", "since_ms"}`: the names of the settings that are others now, and since when they hold.

        Raises:
            ConfigError: they are wrong, cannot be used here, or cannot be changed while the agent runs.
            UnavailableError: not now.
        """
        async with self._lock:
            self.on_reload(True)
            try:
                changed = await self._reload()
            except (ElfError, OverlayError, OSError, sqlite3.Error) as error:
                self.failure = str(error)
                log.error("the settings of %s stay: %s", clock_time(self.since_ms), "; ".join(str(error).splitlines()))
                if isinstance(error, ConfigError | UnavailableError):
                    raise
                kind = ConfigError if isinstance(error, OverlayError) else UnavailableError
                raise kind(str(error)) from None
            except BaseException as error:
                self.failure = f"internal error, {type(error).__name__}: {error}"
                raise
            finally:
                self.on_reload(False)
            log.info("new settings hold: %s", ", ".join(changed) or "they are what they were")
            return {"changed": changed, "since_ms": self.since_ms}

    async def _reload(self) -> list[str]:
        if self.left is not None:
            raise UnavailableError("this agent drains, and ends; `elf drain --cancel` keeps it")
        if self.load is None or self._change is None:
            raise ConfigError("this agent was started without a configuration file; there is nothing to read again")
        old, new = self.config, await asyncio.to_thread(self.load)
        changed = sorted(differences(old, new))
        _refuse_fixed(changed)
        swaps = [part(old, new) for part in self.parts]
        change = self._change(old, new)
        await change.prepare()
        await change.swap()
        for swap in swaps:
            swap()
        self.config = new
        self.since_ms = self._now_ms()
        self.failure = None
        await change.finish()
        return changed

    async def leave(self) -> None:
        """Read no more, and leave all sources as soon as masters have what was read of them.

        Raises:
            UnavailableError, OSError, sqlite3.Error: not now; all is as it was.
        """
        async with self._lock:
            if self.left is None:
                held = self.config
                await self._change_sources(msgspec.structs.replace(held, sources={}))
                self.left = held

    async def stay(self) -> None:
        """Go on with all sources after `leave`; raises as that does."""
        async with self._lock:
            if self.left is not None:
                await self._change_sources(self.left)
                self.left = None

    async def _change_sources(self, new: AgentConfig) -> None:
        assert self._change is not None
        change = self._change(self.config, new)
        await change.prepare()
        await change.swap()
        self.config = new
        await change.finish()

    def notes(self) -> list[str]:
        """Say that this agent does not run on the settings that it was last told to."""
        if self.failure is None:
            return []
        first, *others = self.failure.splitlines() or [""]
        more = f" (and {len(others)} more)" if others else ""
        return [f"runs on the settings of {clock_time(self.since_ms)}; they could not be changed: {first}{more}"]


def differences(old: AgentConfig, new: AgentConfig) -> Iterator[str]:
    """Yield the names of the settings that differ, a source as a whole; `agent.data`, `sources.access`."""
    for section in AgentConfig.__struct_fields__:
        before, after = getattr(old, section), getattr(new, section)
        if isinstance(before, msgspec.Struct):
            for name in before.__struct_fields__:
                if getattr(before, name) != getattr(after, name):
                    yield f"{section}.{name}"
            continue
        for name in before.keys() | after.keys():
            if before.get(name) != after.get(name):
                yield f"{section}.{name}"


def clock_time(at_ms: int) -> str:
    """Write a time of day, for people."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def _refuse_fixed(changed: list[str]) -> None:
    fixed = [name for name in changed if name not in RELOADABLE and not name.startswith("sources.")]
    if fixed:
        raise ConfigError(
            f"{', '.join(fixed)}: cannot be changed while the agent runs, so nothing is; restart it, or put the old "
            f"{'value' if len(fixed) == 1 else 'values'} back"
        )
