"""`elf verify`: are the published windows what Spark computes from the archive?

Owns what is asked of the agents, and which of three ways a job is verified: over events alone (`plain`), with its last
result (`iterated`), over other jobs (`joined`). All of them end in a `report`. Waits for nothing: open windows are
skipped. DESIGN section 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from elf.agents.archive.place import Place
from elf.agents.errors import JobError
from elf.agents.language.query import parse_query
from elf.client.results import Version
from elf.offline.asking import JobText, describe
from elf.offline.own import Key, Trusted
from elf.offline.progress import Steps
from elf.offline.verify.iterated import IteratedVerification, in_time
from elf.offline.verify.joined import JoinedVerification, ReadJob
from elf.offline.verify.plain import PlainVerification
from elf.offline.verify.report import Report
from elf.offline.verify.versions import Countings
from elf.offline.verify.windows import Asker, JobClient, ask_windows, labels_of, windows_since


def run_verify(
    client: JobClient,
    name: str,
    windows: Sequence[str] = ("latest",),
    archives: Sequence[Place] = (),
    master: str = "local[*]",
    *,
    since: str | None = None,
    conf: Mapping[str, str] | None = None,
    steps: Steps | None = None,
    trusted: Iterable[Key] = (),
) -> Report:
    """Fetch a job and its windows from an agent and verify them.

    Args:
        client: asks the agent.
        name: the job's name, or `creator/name`.
        windows: `latest`, START/END or a length such as `300s`; not asked for with `since`.
        archives: archive folders, of all agents.
        master: Spark's master.
        since: all closed windows since then, see `windows_since`.
        conf: Spark's settings.
        steps: is told how far it is.
        trusted: creators, and the public keys that functions which come with their jobs are signed with; nobody's run
            otherwise.

    Raises:
        ElfError: Spark or the archive cannot be used, the agent refuses, functions may not run, or do what they may
            not; one clear sentence.
    """
    trust = Trusted(trusted)
    job = describe(client, name, over_jobs=True, with_functions=True)
    if since is not None:
        windows = [f"{start_ms}/{end_ms}" for start_ms, end_ms in windows_since(job, since)]
    steps = steps or Steps()
    steps.total("windows", len(windows))
    if job.joined is not None:
        reads = [_read(client, use.job, trust) for use in job.joined.uses]
        return JoinedVerification(job, reads, archives, master, conf, steps).run(ask_windows(client, job, windows))
    countings = _countings_of(client, job, trust)
    if parse_query(job.query).last is not None:
        iterated = IteratedVerification(job, countings, archives, client, master, conf, steps)
        return iterated.run(ask_windows(client, job, sorted(windows, key=in_time)))
    asker = Asker(job.agents, job.roster, labels_of(client, job), client)
    plain = PlainVerification(job, countings, archives, asker, master, conf, steps)
    return plain.run(ask_windows(client, job, windows))


def _read(client: JobClient, key: str, trust: Trusted) -> ReadJob:
    job = describe(client, key, with_functions=True)
    if parse_query(job.query).last is not None:
        raise JobError(f"{key} reads its last result, so Spark does not join its windows: verify it by itself")
    return ReadJob(job, _countings_of(client, job, trust))


def _countings_of(client: JobClient, job: JobText, trust: Trusted) -> Countings:
    """Return a job's versions, whose newest one may run here; of others that is asked where a window is theirs."""

    def again() -> Sequence[Version]:
        return describe(client, job.key, with_functions=True).versions

    countings = Countings(job, job.versions, job.interval_ms, again, trust)
    countings.admit(job.functions)
    return countings
