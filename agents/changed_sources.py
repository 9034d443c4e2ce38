"""What new settings make of an agent's sources: added, read otherwise, or left, while the others go on.

All is made and held before anything changes, so that whatever fails leaves all as it was. A source that is left reads
no more at once; its open intervals end by the time of day, and when the masters have them it leaves its jobs' trees, so
that no window waits for it. What it has read stays known: it goes on there if it is given again.
"""

from __future__ import annotations

import asyncio
import logging
import pathlib
from collections.abc import Mapping

from elf.agents.errors import ElfError
from elf.agents.host.means import Means
from elf.agents.intake.intake import Intake
from elf.agents.intake.pump_settings import Reading
from elf.agents.intake.source_setup import reading_of
from elf.agents.master_side import MasterSide
from elf.agents.membership import Membership
from elf.agents.settings.config import AgentConfig, SourceConfig
from elf.agents.wire.questions import Retire
from elf.agents.worker_side import WorkerSide
from elf.overlay.errors import OverlayError

log = logging.getLogger(__name__)
#: How long a source may take to be read to its end, before it is changed.
DRAIN_S = 30.0
#: How often is looked whether masters have what was read of a source that is left, and how long at most.
LOOK_S, LEAVE_S = 0.5, 3_600.0


class SourceChange:
    """One change of an agent's sources: `prepare`, then `swap` and `finish`, or `abandon`.

    Args:
        side: the agent's sources.
        membership: the agent in their trees.
        old: the settings that hold.
        new: those that are to hold.
        means: the agent's clock, and work beside.
        jobs: what it knows of jobs, and their masters.
    """

    def __init__(
        self,
        side: WorkerSide,
        membership: Membership,
        old: AgentConfig,
        new: AgentConfig,
        means: Means,
        jobs: MasterSide,
    ) -> None:
        self._side = side
        self._membership = membership
        self._new = new
        self._means = means
        self._jobs = jobs
        kept = old.sources.keys() & new.sources.keys()
        is_for_all = _driving(old) != _driving(new)
        self.changed = sorted(name for name in kept if is_for_all or old.sources[name] != new.sources[name])
        self.added = sorted(new.sources.keys() - old.sources.keys())
        self.removed = sorted(old.sources.keys() - new.sources.keys())
        self._old_sources: Mapping[str, SourceConfig] = old.sources
        self._made: dict[str, Intake] = {}
        self._readings: dict[str, Reading] = {}
        self._held: list[Intake] = []

    async def prepare(self) -> None:
        """Make what is new, and hold what changes, each read to its end and on disk.

        Raises:
            ConfigError: a source cannot be read so.
            UnavailableError, OSError, sqlite3.Error: not now.
        """
        intakes, spools = self._side.intakes, pathlib.Path(self._new.agent.data) / "push"
        await self._side.changing.acquire()
        try:
            for name in (*self.changed, *self.added):
                source, intake = self._new.sources[name], intakes.get(name)
                if intake is None:
                    self._made[name] = await asyncio.to_thread(self._side.make_intake, name, self._new)
                    continue
                known = intake.pump.recognised if _has_same_lines(self._old_sources.get(name), source) else None
                self._readings[name] = await asyncio.to_thread(
                    reading_of, name, source, self._new, spools / f"{name}.log", self._means.now_ms, known
                )
            for name in (*self._readings, *self.removed):
                await intakes[name].hold(DRAIN_S)
                self._held.append(intakes[name])
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Let everything be as it was."""
        for intake in self._held:
            intake.release()
        for intake in self._made.values():
            intake.discard()
        self._held = []
        self._made = {}
        self._side.changing.release()

    async def swap(self) -> None:
        """Let the new settings hold, of all sources between two checkpoints; never fails."""
        intakes = self._side.intakes
        await asyncio.gather(
            *(intakes[name].refit(reading) for name, reading in self._readings.items()),
            *(intakes[name].leave() for name in self.removed),
        )
        intakes.update(self._made)
        for intake in self._held:
            intake.release()
        self._held = []

    async def finish(self) -> None:
        """Begin to read what was added, and leave what was removed, once nothing of it is left here."""
        self._side.changing.release()
        for name in self._made:
            await self._side.begin(name, self._membership)
        if self.added or self.removed:
            # Whom jobs expect in a source is what agents say of themselves there.
            self._membership.reintroduce(self._side.intakes)
        for name in self.removed:
            self._means.spawn(leave_source(name, self._side, self._membership, self._jobs))


async def leave_source(name: str, side: WorkerSide, membership: Membership, jobs: MasterSide) -> None:
    """Leave a source that is read no more, as soon as masters have what was read of it.

    Args:
        name: the source, of which `Intake.leave` was asked.
        side: the agent's sources; it is there until then, and again if it is to be read again meanwhile.
        membership: the agent in their trees.
        jobs: what it knows of jobs, and their masters.
    """
    intake, held = side.intakes[name], list[bytes]()
    loop = asyncio.get_running_loop()
    until_s = loop.time() + LEAVE_S
    while intake.pump.is_leaving:
        held = await intake.held()
        if not held or loop.time() > min(until_s, side.leave_by_s):
            break
        await asyncio.sleep(LOOK_S)
    async with side.changing:
        if not intake.pump.is_leaving:
            return  # it is to be read again
        side.attachments.leave(name, held)
        membership.leave(name)
        del side.intakes[name]
        await intake.stop()
        intake.close()
    if held:
        log.warning("source %s is left; masters may lack its last events until it is configured again", name)
    else:
        log.info("source %s is left: its jobs have all that was read of it", name)
    # Its good-bye may have been lost; whoever was told already is told again.
    asked = (
        jobs.asking.ask(each.definition.key, Retire(each.definition.app_id, membership.agent_id))
        for each in list(jobs.catalogue.running(name))
    )
    for failure in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(failure, Exception) and not isinstance(failure, ElfError | OverlayError):
            raise failure


def _driving(config: AgentConfig) -> tuple[int, int, int]:
    """Return what all sources are driven by."""
    return config.agent.chunk_bytes, config.agent.checkpoint_ms, config.archive.rows_max


def _has_same_lines(old: SourceConfig | None, new: SourceConfig) -> bool:
    """Tell whether what the lines of a source were found to be holds under other settings."""
    if old is None:
        return False
    return all(
        getattr(old, field) == getattr(new, field) for field in ("path", "format", "time", "unwrap", "time_zone")
    )
