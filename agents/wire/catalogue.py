"""The jobs and members an agent has heard of, from the control records of its trees. Pure but for the store behind it.

Every agent with a source is a member of that source's tree and announces itself there; every job of the source is a
record in the same tree (DESIGN section 4). A stopped job stays as a record with a higher version.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

import msgspec

from elf.agents.errors import BadRequestError, JobError, JobSpecError, NotAdmittedError, NotCreatorError
from elf.agents.jobs.definition import check_definition
from elf.agents.jobs.intervals import pace_of
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Versions, compile_versions
from elf.agents.language.instants import EARLIEST_MS
from elf.agents.language.own_functions import Admits
from elf.agents.wire.ownership import AHEAD_MS, check_stamp, check_successor
from elf.agents.wire.purges import PREFIX, Purges, order_of
from elf.agents.wire.record_budget import OTHER, RecordBudget
from elf.agents.wire.records import FEEDBACK_KEY, JOB, JOB_KEY, MEMBER, JobRecord, Member
from elf.agents.wire.split import SIDE_KEY
from elf.overlay.contract import Record
from elf.overlay.decoding import read_msgpack
from elf.overlay.ids import app_id

#: Publications remembered that others have followed.
OVER_MAX = 1_024
#: Jobs remembered that cannot run here.
UNUSABLE_MAX = 1_024
#: Versions of jobs that are kept for whoever takes up what was just learnt.
RECENT_MAX = 16


class Catalogue:
    """What this agent knows of jobs and members.

    Args:
        admits: decides whether functions that jobs bring along may run here; None: no job's do.
        operators: name -> public key of who may purge.
    """

    def __init__(self, admits: Admits | None = None, operators: Mapping[str, str] | None = None) -> None:
        self.purges = Purges(operators or {})
        self._admits = admits
        self._jobs: dict[bytes, JobRecord] = {}
        self._members: dict[str, Member] = {}
        #: Of which version the record of each was.
        self._heard: dict[str, int] = {}
        #: Tree -> job, of the newest publication of each job.
        self._trees: dict[bytes, bytes] = {}
        #: Tree -> its versions, of those that somebody has asked for; and those that were compiled last.
        self._versions: dict[bytes, Versions] = {}
        self._recent: deque[Versions] = deque(maxlen=RECENT_MAX)
        #: Jobs of which a newer record came that cannot run here: job -> that record and why.
        self._unusable: dict[bytes, tuple[JobRecord, str]] = {}
        #: Trees of publications that others have followed, oldest first.
        self._over: dict[bytes, None] = {}
        self._budget = RecordBudget()
        #: Tells of a source whether this agent asks the masters of its jobs.
        self.asks: Callable[[str], bool] = lambda source: False
        #: Jobs that were told of, and have made way for others before their masters answered, since somebody asked.
        self._gone: list[JobRecord] = []
        self._now_ms = 0
        #: Rises with each record of a job that comes: who looks at all jobs need not where it has not.
        self.revision = 0

    def admit(self, tree: bytes, record: Record, now_ms: int, *, told: bool = True) -> None:
        """Hold a record that another agent tells to the clock and to what its job's creator has ordered.

        One that cannot be read is let in, as later releases' are passed on, but not in the place of a creator's job.

        Args:
            tree: that it is told in.
            record: the record.
            now_ms: our clock.
            told: by another agent; False: somebody asks us to tell it.

        Raises:
            NotCreatorError: it is not as the job's creator has ordered.
            NotAdmittedError: it is stamped as none can be, or there is no room.
        """
        self._now_ms = now_ms
        if record.key.startswith(PREFIX):
            order_of(record)
            check_stamp(record.version, None, now_ms)
        elif record.key.startswith(MEMBER):
            self.purges.check_member(record.key.removeprefix(MEMBER), record.version)
            check_stamp(record.version, None, now_ms)
        elif record.key.startswith(JOB) or record.key == JOB_KEY:
            job = self._admit_job(tree, record, now_ms)
            if job is None:
                return self._admit_other(tree, record)
            key, over = JOB + job.definition.key, job.stopped
            if told and self.asks(job.definition.source):
                self._budget.check_unheard(key, now_ms, over=over)
            record = Record(key, record.version, record.body)
        elif record.key not in (FEEDBACK_KEY, SIDE_KEY):
            return self._admit_other(tree, record)
        self._budget.check(record)

    def _admit_other(self, tree: bytes, record: Record) -> None:
        """Let a record in that means nothing here; as it is let in nowhere else, it counts from now on."""
        counted = Record(f"{OTHER}{tree.hex()}/{record.key}", record.version, record.body)
        self._budget.check(counted)
        self._budget.take(counted)

    def _make_way(self, key: str) -> None:
        creator, _, name = key.removeprefix(JOB).partition("/")
        app = app_id(name, creator)
        self._unusable.pop(app, None)
        job = self._jobs.pop(app, None)
        if job is not None:
            del self._trees[job.tree]
            self._versions.pop(job.tree, None)
            self._gone.append(job)
        self._budget.drop(key)
        self.revision += 1

    def take_gone(self) -> list[JobRecord]:
        """Return the jobs that have made way for others since this was called last; nobody needs to hold them."""
        gone = list(self._gone)
        self._gone.clear()
        return gone

    def confirm(self, job: JobRecord) -> None:
        """Take note that a job's master has answered."""
        self._budget.confirm(JOB + job.definition.key)

    def _admit_job(self, tree: bytes, record: Record, now_ms: int) -> JobRecord | None:
        """Return the job that a record is of, if it may be that; None if it cannot be read."""
        try:
            job = JobRecord.decode(record.body)
        except (msgspec.DecodeError, ValueError):
            key = record.key.removeprefix(JOB)
            if any(each.owner and (each.definition.key == key or each.tree == tree) for each in self._jobs.values()):
                raise NotCreatorError(f"record {record.key} of a creator's job cannot be read") from None
            check_stamp(record.version, None, now_ms)
            return None
        check_stamp(record.version, job, now_ms)
        if tree != job.tree if record.key == JOB_KEY else record.key != JOB + job.definition.key:
            raise NotAdmittedError("it is of another job than it says")
        self.purges.check_job(job)
        known = self._jobs.get(job.definition.app_id)
        check_successor(known, job, now_ms)
        if not job.stopped and (known is None or known.definition != job.definition):
            _check_pace(job)
        return job

    def is_purged(self, record: Record) -> bool:
        """Tell whether the job or the member that a record is of was purged since."""
        try:
            if record.key.startswith(MEMBER):
                self.purges.check_member(record.key.removeprefix(MEMBER), record.version)
            elif record.key.startswith(JOB):
                self.purges.check_job(JobRecord.decode(record.body))
        except NotAdmittedError:
            return True
        except (msgspec.DecodeError, ValueError):
            pass  # what cannot be read is said when it is learnt
        return False

    def learn_record(self, record: Record, *, told: bool = True) -> JobRecord | None:
        """Take a control record in, told or of an earlier run; return the job if it is one and can run here.

        Raises:
            msgspec.DecodeError: the body is not what the key says: a peer's fault.
            JobSpecError: the job cannot run on this release.
        """
        if record.key.startswith(PREFIX):
            self._budget.take(record)
            return None
        if record.key.startswith(MEMBER):
            member = read_msgpack(record.body, Member)
            if record.version >= self._heard.get(member.agent_id, 0):  # in several trees, each at its own pace
                self._members[member.agent_id], self._heard[member.agent_id] = member, record.version
            self._budget.take(record)
            return None
        if not record.key.startswith(JOB):
            return None  # a later release's; whatever it holds, nobody has looked at it
        job = JobRecord.decode(record.body)
        if told and self.asks(job.definition.source):
            stale = self._budget.hear(record.key, self._now_ms, over=job.stopped)
            if stale is not None:
                self._make_way(stale)
        self._budget.take(record)
        self.learn(job)
        return job

    def learn(self, job: JobRecord) -> None:
        """Take a job in; an older publication of the same job is ignored.

        Raises:
            NotCreatorError: it is not as the job's creator has ordered.
            JobError: it cannot run here, say for want of a function; `unusable` remembers it.
        """
        self.revision += 1  # also where it changes nothing here: whoever tells us has changed what he has of the job
        check_definition(job.definition)
        app = job.definition.app_id
        known = self._jobs.get(app)
        if known is not None and known.stamp_ms > job.stamp_ms:
            return
        self._forget_unusable(app, job.stamp_ms)
        if known == job:
            return
        check_successor(known, job)
        self.purges.check_job(job)
        try:
            self._compile(job)
        except JobError as error:
            if not job.stopped or known is None or known.tree != job.tree:
                if app not in self._unusable and len(self._unusable) < UNUSABLE_MAX:
                    self._unusable[app] = job, str(error)
                raise
            # It ends, whether we could follow its last change or not.
        if known is not None and known.tree != job.tree:
            self._mark_over(known.tree)
            del self._trees[known.tree]
        self._jobs[app], self._trees[job.tree] = job, app

    def bury(self, tombstone: JobRecord) -> None:
        """Take a job for over that an operator has purged, whatever its creator has ordered."""
        app = tombstone.definition.app_id
        known = self._jobs.get(app)
        if known is not None and known.tree == tombstone.tree:
            self._jobs[app] = tombstone

    def forget_job(self, job: JobRecord) -> None:
        """Forget a job that was purged, but for that its publication is over."""
        app = job.definition.app_id
        self._unusable.pop(app, None)
        self._mark_over(job.tree)
        if app in self._jobs and self._jobs[app].tree == job.tree:
            del self._jobs[app]
            self._trees.pop(job.tree, None)
            self._budget.drop(JOB + job.definition.key)
        self.revision += 1

    def forget_member(self, agent_id: str) -> None:
        """Forget an agent that was purged."""
        self._members.pop(agent_id, None)
        self._heard.pop(agent_id, None)
        self._budget.drop(MEMBER + agent_id)

    def _mark_over(self, tree: bytes) -> None:
        self._over[tree] = None
        while len(self._over) > OVER_MAX:
            del self._over[next(iter(self._over))]
        self._versions.pop(tree, None)

    def _compile(self, job: JobRecord) -> Versions:
        """Compile a job's versions, which are kept if somebody has asked for those before; else they soon go."""
        before = self._versions.get(job.tree)
        compiled = compile_versions(job.history, before, self._admits)
        if before is not None:
            self._versions[job.tree] = compiled
        self._recent.append(compiled)
        return compiled

    def _forget_unusable(self, app: bytes, stamp_ms: int) -> None:
        """Drop what was remembered of a job that did not run here, now that there is as new a record of it."""
        if app in self._unusable and self._unusable[app][0].stamp_ms <= stamp_ms:
            del self._unusable[app]

    def unusable(self, source: str) -> list[tuple[JobRecord, str]]:
        """Return the jobs of a source that run, or have a newer version, and cannot here; with the reason, by name."""
        running = [each for each in self._unusable.values() if not each[0].stopped]
        found = [each for each in running if each[0].definition.source == source]
        return sorted(found, key=lambda each: each[0].definition.key)

    def job(self, app: bytes) -> JobRecord | None:
        """Return what is known of a job, stopped ones included."""
        return self._jobs.get(app)

    def job_of_tree(self, tree: bytes) -> JobRecord | None:
        """Return the job whose newest known publication has this tree."""
        app = self._trees.get(tree)
        return None if app is None else self._jobs[app]

    def is_over(self, tree: bytes) -> bool:
        """Tell whether the publication with this tree was stopped, as far as that is known here."""
        job = self.job_of_tree(tree)
        return tree in self._over or (job is not None and job.stopped)

    def versions(self, tree: bytes) -> Versions:
        """Return the versions of the publication with this tree.

        Raises:
            KeyError: it was not learnt, or a newer one was.
            JobError: it cannot run here any more.
        """
        versions = self._versions.get(tree)
        if versions is None:
            job = self.job_of_tree(tree)
            if job is None:
                raise KeyError("this agent has not heard of the job's publication, or of a later one already")
            # Most agents of a tree that have no events of it only pass it on, and nobody asks them for its versions.
            versions = self._versions[tree] = self._compile(job)
        return versions

    def may_have_ended(self, tree: bytes, interval: int, now_ms: int) -> bool:
        """Tell whether an interval of the publication with this tree can be over anywhere; also if it is not known.

        Agents seal what is over by their own clock, and nobody logs of times before the calendar.
        """
        try:
            end_ms = self.versions(tree).end_ms(interval)
        except (KeyError, JobError):
            return True
        return EARLIEST_MS <= end_ms <= now_ms + AHEAD_MS

    def plan(self, tree: bytes) -> Plan:
        """Return the plan of the newest of these versions; raises as `versions` does."""
        return self.versions(tree).newest.plan

    def jobs(self) -> Iterable[JobRecord]:
        """Return what is known of all jobs, stopped ones included."""
        return self._jobs.values()

    def running(self, source: str | None = None) -> list[JobRecord]:
        """Return the running jobs, of one source or of all, by creator and name."""
        jobs = [j for j in self._jobs.values() if not j.stopped and source in (None, j.definition.source)]
        return sorted(jobs, key=lambda job: job.definition.key)

    def members(self, source: str) -> list[Member]:
        """Return the agents known to have a source, by name; not those that are gone for good."""
        return [member for member in self.all_members() if source in member.sources and not member.gone]

    def all_members(self) -> list[Member]:
        """Return all agents ever heard of, by name, also those that are gone for good."""
        return sorted(self._members.values(), key=lambda member: member.name)

    def member(self, agent_id: str) -> Member | None:
        """Return an agent that was heard of."""
        return self._members.get(agent_id)

    def key_of(self, agent_id: str) -> bytes | None:
        """Return the key that an agent has introduced itself with; None if it has not, or was not heard of."""
        member = self._members.get(agent_id)
        return None if member is None or member.signed is None else member.signed.key

    def unread(self, source: str) -> frozenset[str]:
        """Return the ids of the agents that read nothing of a source, for nobody knows what its lines are."""
        return frozenset(agent for agent, member in self._members.items() if source in member.unread)

    def name_of(self, agent_id: str) -> str:
        """Return an agent's name, or its id where the name was never heard."""
        member = self._members.get(agent_id)
        return member.name if member else agent_id


def _check_pace(job: JobRecord) -> None:
    """Hold back a job that seals more often than any that may be published; what cannot be read is passed on."""
    try:
        interval_ms, least_ms = pace_of(job.definition)
    except JobSpecError:
        return
    if interval_ms < least_ms:
        raise NotAdmittedError(f"it has intervals of {interval_ms} ms, and the shortest are {least_ms} ms")


def job_record(job: JobRecord) -> Record:
    """Return the record that spreads a job in its source's tree."""
    return Record(JOB + job.definition.key, job.stamp_ms, job.encode())


def member_record(member: Member, version: int) -> Record:
    """Return the record with which an agent announces itself; `version` must rise with each change."""
    return Record(MEMBER + member.agent_id, version, msgspec.msgpack.encode(member))


def find_member(named: str, known: Mapping[str, tuple[str, str]]) -> str | None:
    """Return the id of the agent that a person names by id, name or address; None if there is none.

    Args:
        named: what the person wrote.
        known: agent id -> name and address.

    Raises:
        BadRequestError: several agents have that name.
    """
    if named in known:
        return named
    found = sorted(agent for agent, words in known.items() if named in words)
    if len(found) > 1:
        raise BadRequestError(f"{len(found)} agents are called {named!r}; name one by its id: {', '.join(found[:9])}")
    return found[0] if found else None
