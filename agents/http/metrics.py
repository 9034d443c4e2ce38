"""Metrics in the Prometheus text format, read from the parts of the agent when asked (base units, few labels)."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from elf.agents.errors import NotAdmittedError, NotBelievedError, NotCreatorError
from elf.agents.host.disk_damage import KINDS, Damages
from elf.agents.sources.native import named
from elf.agents.store.panes import Kind

if TYPE_CHECKING:
    from prometheus_client import Metric

    from elf.agents.agent import Agent
    from elf.agents.archive.keeper import Keeper
    from elf.agents.archive.mirror import Mirror

_ENDS = ("parsed", "rejected", "filtered", "headers", "parts")


def damages_by_kind(damages: Damages) -> dict[str, int]:
    """Return how often each kind was found, also those that were not, so that alarms see them rise from 0."""
    return dict.fromkeys([*KINDS, *(kind.word for kind in Kind)], 0) | dict(damages.counts)


def families(agent: Agent) -> Iterator[Metric]:
    """Return all that an agent tells of itself, also where there is nothing yet."""
    return _AgentCollector(agent).collect()


class _AgentCollector(Collector):
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterator[Metric]:
        release = {"version": importlib.metadata.version("elf-stream"), "kernels": named()}
        yield InfoMetricFamily("elf_build", "Release, and what reads log lines", value=release)
        settings = self._agent.reconfiguration
        fine, since = float(settings.failure is None), "When the settings that hold were read"
        yield GaugeMetricFamily("elf_config_reload_success", "0 while the last reload has failed", value=fine)
        yield GaugeMetricFamily("elf_config_loaded_timestamp_seconds", since, value=settings.since_ms / 1000)
        yield from self._sources()
        yield from self._jobs()
        overlay = CounterMetricFamily("elf_overlay", "Overlay events since start, by kind", labels=["kind"])
        for kind, count in sorted(self._agent.node.counters().items()):
            overlay.add_metric([kind], count)
        yield overlay
        refused = CounterMetricFamily("elf_records_refused", "Records of other agents not taken", labels=["why"])
        for error, why in (
            (NotCreatorError, "creator"),
            (NotAdmittedError, "bounds"),
            (NotBelievedError, "identity"),
        ):
            refused.add_metric([why], self._agent.membership.refused[error])
        yield refused
        audits = CounterMetricFamily(
            "elf_audits", "Claims of members of trees merged again, by outcome", labels=["outcome"]
        )
        for outcome, count in self._agent.sources.auditor.findings.counts.items():
            audits.add_metric([outcome], count)
        yield audits
        shut = len(self._agent.sources.auditor.findings.found())
        yield GaugeMetricFamily("elf_audits_shut_out", "Members shut out of trees, as this agent found", value=shut)
        refused_verdicts = "Verdicts that somebody above this agent made up, as a job's master says"
        yield CounterMetricFamily("elf_verdicts_refused", refused_verdicts, self._agent.sources.fates.refused)
        damaged = CounterMetricFamily("elf_damaged", "Damage found on this agent's disk since start", labels=["kind"])
        for kind, count in damages_by_kind(self._agent.database.damages).items():
            damaged.add_metric([kind], count)
        yield damaged
        ahead_s = self._agent.now_ms.ahead_ms() / 1000
        yield GaugeMetricFamily("elf_clock_set_back_seconds", "What the clock has to catch up with", value=ahead_s)
        apart_s = (self._agent.now_ms.apart_ms() or 0) / 1000
        yield GaugeMetricFamily("elf_clock_apart_seconds", "How far it is ahead of the neighbours'", value=apart_s)
        if self._agent.sources.keeper is not None:
            yield from self._archive(self._agent.sources.keeper)
        if self._agent.sources.mirror is not None:
            yield from self._archive_copy(self._agent.sources.mirror)
        yield from self._copies()
        contacts = len(self._agent.node.contacts())
        yield GaugeMetricFamily("elf_contacts", "Other agents this one knows", value=contacts)

    def _archive(self, keeper: Keeper) -> Iterator[Metric]:
        yield GaugeMetricFamily("elf_archive_bytes", "The archive on disk, as of the last minute", value=keeper.bytes)
        removed = "Removed from the archive by age or for room since start"
        yield CounterMetricFamily("elf_archive_removed_bytes", removed, value=keeper.removed_bytes)
        yield CounterMetricFamily("elf_archive_merged_files", "Small files merged since start", value=keeper.merged)

    def _archive_copy(self, mirror: Mirror) -> Iterator[Metric]:
        yield CounterMetricFamily("elf_archive_copied_bytes", "Archive copied to its URL since start", mirror.bytes)
        waiting = "Files of the archive that are not at its URL yet, as of the last look"
        yield GaugeMetricFamily("elf_archive_copy_waiting_files", waiting, value=mirror.waiting)
        failures = "Attempts to bring the archive's copy in step that failed since start"
        yield CounterMetricFamily("elf_archive_copy_failures", failures, value=mirror.failures)

    def _copies(self) -> Iterator[Metric]:
        replicas, holder = self._agent.replicas, self._agent.holder
        copies = CounterMetricFamily(
            "elf_snapshot_copies",
            "Snapshots of others taken, handed over for them, and those not made",
            labels=["kind"],
        )
        copies.add_metric(["taken"], holder.taken)
        copies.add_metric(["answered"], holder.answered)
        copies.add_metric(["skipped"], holder.skipped + replicas.skipped)
        yield copies
        yield GaugeMetricFamily("elf_snapshot_copies_held", "Snapshots of others held now", value=holder.held)
        checkpoints = CounterMetricFamily(
            "elf_checkpoint_copies",
            "Checkpoints copied to others, and taken over from a lost agent's copy",
            labels=["kind"],
        )
        checkpoints.add_metric(["copied"], replicas.copied)
        checkpoints.add_metric(["adopted"], self._agent.attachments.succession.adopted)
        yield checkpoints
        yield GaugeMetricFamily("elf_checkpoint_copies_held", "Checkpoints of others held", value=holder.checkpoints)

    def _sources(self) -> Iterator[Metric]:
        read = CounterMetricFamily("elf_lines_read", "Lines read", labels=["source"])
        ends = CounterMetricFamily("elf_lines", "Lines by their end; they add up to read", labels=["source", "end"])
        oddities = "Lines repaired or cut, and values that do not fit their column's type, by kind"
        odd = CounterMetricFamily("elf_line_oddities", oddities, labels=["source", "kind", "column"])
        early = "Lines rejected because their events are further ahead of the clock than ahead_max"
        ahead = CounterMetricFamily("elf_lines_ahead", early, labels=["source"])
        gaps = CounterMetricFamily("elf_truncations", "Logs truncated while they were read", labels=["source"])
        lost = CounterMetricFamily("elf_gap_bytes", "Bytes known to be lost by truncation", labels=["source"])
        newest = GaugeMetricFamily("elf_newest_event_timestamp_seconds", "Newest event time", labels=["source"])
        trouble = GaugeMetricFamily("elf_source_trouble", "1 while the source stands still", labels=["source"])
        resting = GaugeMetricFamily("elf_source_resting", "1 while a job's tree takes no more", labels=["source"])
        for source, intake in sorted(self._agent.intakes.items()):
            counters = intake.pump.counters
            read.add_metric([source], counters.read)
            for end in _ENDS:
                ends.add_metric([source, end], getattr(counters, end))
            for kind, count in msgspec.structs.asdict(intake.pump.oddities).items():
                for column, values in sorted(count.items()) if kind == "mistyped" else [("", count)]:
                    odd.add_metric([source, kind, column], values)
            ahead.add_metric([source], counters.ahead)
            gaps.add_metric([source], intake.pump.tail.gap_count)
            lost.add_metric([source], intake.pump.tail.gap_bytes)
            newest.add_metric([source], (intake.pump.newest_ms or 0) / 1000)
            trouble.add_metric([source], float(intake.trouble is not None))
            resting.add_metric([source], float(intake.resting))
        yield from (read, ends, odd, ahead, gaps, lost, newest, trouble, resting)

    def _jobs(self) -> Iterator[Metric]:
        held = "PAOs of open intervals; of those that several jobs hold together, the job's part"
        memory = GaugeMetricFamily("elf_worker_memory_bytes", held, labels=["job"])
        for intake in self._agent.intakes.values():
            for worker in tuple(intake.pump.workers.values()):
                memory.add_metric([worker.plan.definition.key], worker.memory_bytes)
        through = GaugeMetricFamily("elf_master_through_timestamp_seconds", "Committed event time", labels=["job"])
        for job, through_ms in self._agent.masters.progress():
            through.add_metric([job], (through_ms or 0) / 1000)
        late = CounterMetricFamily("elf_too_late_rows", "Rows later than a job retains: in no result", labels=["job"])
        for job, rows in self._agent.masters.too_late():
            late.add_metric([job], rows)
        control = GaugeMetricFamily("elf_control_position", "Control entries of the job handled", labels=["job"])
        for job, position in self._agent.attachments.progress():
            control.add_metric([job], position)
        snapshots = CounterMetricFamily(
            "elf_snapshots", "Snapshots handed to the tree, but for empty ones", labels=["job"]
        )
        sizes = CounterMetricFamily("elf_snapshot_bytes", "Bytes of snapshots handed to the tree", labels=["job"])
        for tree, handed in tuple(self._agent.attachments.handed.items()):
            job_of = self._agent.catalogue.job_of_tree(tree)
            if job_of is not None:
                snapshots.add_metric([job_of.definition.key], handed.snapshots)
                sizes.add_metric([job_of.definition.key], handed.bytes)
        yield from (memory, through, late, control, snapshots, sizes)
        yield from self._applications()
        copies = len(self._agent.copies.all())
        yield GaugeMetricFamily("elf_job_copies", "Jobs whose master's copy is kept here, led or not", value=copies)

    def _applications(self) -> Iterator[Metric]:
        labels = ["job", "role"]
        handled = CounterMetricFamily("elf_application_callbacks", "Callbacks of applications done", labels=labels)
        lost = CounterMetricFamily(
            "elf_application_lost", "What applications were not told, or could not say", labels=labels
        )
        slow = CounterMetricFamily("elf_application_slow", "Callbacks that took more than 5 s", labels=labels)
        stopped = GaugeMetricFamily("elf_application_stopped", "1 if it has failed here", labels=labels)
        for job, role, runner in self._agent.applications.counts():
            handled.add_metric([job, role], runner.handled)
            lost.add_metric([job, role], runner.lost)
            slow.add_metric([job, role], runner.slow)
            stopped.add_metric([job, role], float(runner.why is not None))
        yield from (handled, lost, slow, stopped)


def render_metrics(agent: Agent) -> bytes:
    """Render all metrics of one agent; its registry is its own, so many agents fit in one process."""
    registry = CollectorRegistry()
    registry.register(_AgentCollector(agent))
    # The process's own: CPU, memory, open files.
    ProcessCollector(registry=registry)
    return generate_latest(registry)
