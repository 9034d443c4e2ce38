"""A job's master: panes in, results out (paper: section 3.1, "Job master"; DESIGN 3.6).

A pane is what one commit brought: the merged PAOs of the run of intervals (previous, through] and the facts for its
label. Late rows find the pane of their own interval and raise its revision. Every commit is durable before the overlay
may tell the agents to forget their snapshots. What is told of the job is made of panes whenever it is asked for
(`elf.agents.master.windows`).

Methods may be called from worker threads; a lock keeps commits and answers apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from elf.agents.completeness.lacks import Cause, Lack, Lacks
from elf.agents.errors import JobError
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Versions
from elf.agents.master.backfill import check_load, with_load
from elf.agents.master.beginning import first_interval
from elf.agents.master.chain import Chain
from elf.agents.master.chain_labels import advance
from elf.agents.master.commands import Enlisted, Load
from elf.agents.master.commit_rows import TOTAL, Filling
from elf.agents.master.contents import content_of, expired, known_only_now, settled, with_commit
from elf.agents.master.news import News
from elf.agents.master.panes.history import History
from elf.agents.master.panes.past import Change
from elf.agents.master.state import MasterState, restored, with_enlisted
from elf.agents.master.windows import Windows
from elf.agents.store.panes import Panes
from elf.agents.store.shared_transactions import Steps
from elf.agents.worker.paos import Paos, extent
from elf.agents.worker.payload import Notes, pack
from elf.cbt import PaoDecodeError
from elf.overlay.contract import NEVER, Commit
from elf.overlay.group.messages import Place, Seat


class Master:
    """The root's side of one job.

    Args:
        job: the compiled job, or its versions.
        store: where commits become durable, and have been.
        state: None for a new job, else what the store had.
    """

    def __init__(self, job: Plan | Versions, store: Panes, state: bytes | None) -> None:
        known = restored(state)
        versions = Versions.of(job).beginning(known.begins)
        self.app = versions.newest.plan.definition.app_id
        self._history = History(versions, store, known.rollup.committed)
        self._history.mend(known.expired, known.rollup.committed, len(known.rollup.roster))
        iterates = versions.newest.plan.iterating is not None
        #: Of a job that reads its last result.
        self._chain = Chain(versions, self._history, known.base, store) if iterates else None
        self._news = News(versions, self._history.labels, known.edition)
        #: What is told of the job.
        self.windows = Windows(versions, known, self._history, self._chain, self._news)

    @property
    def state(self) -> MasterState:
        """What is remembered besides the panes."""
        return self.windows.state

    @property
    def versions(self) -> Versions:
        """The versions of the job, whose windows have nothing of before its state's beginning."""
        return self.windows.versions

    def adopt(self, versions: Versions) -> None:
        """Go on with other versions; those that have counted intervals are the same, but for the oldest."""
        with self.windows.lock:
            self._use(versions.beginning(self.state.begins))

    def _use(self, versions: Versions) -> None:
        self.windows.adopt(versions)
        self._history.adopt(versions)
        if self._chain is not None:
            self._chain.adopt(versions)

    def commit(self, commit: Commit, place: Place) -> None:
        """Do what `committing` does, alone."""
        self._history.finish(self.committing(commit, place))

    def committing(self, commit: Commit, place: Place) -> Steps:
        """Take one commit into the panes, durably; nothing changes if another one overtook it.

        Raises PaoDecodeError on bytes that are not this job's.
        """
        if commit.previous != self.state.rollup.committed or commit.through <= commit.previous:
            yield from self.noting(place)
            return
        with self.windows.lock:
            notes, rows = content_of(commit, self.versions)
            before, begins = self.versions, self.state.begins
            if self._chain is not None:
                begins = first_interval(begins, commit, notes.partial_before, before)
                # No window has anything of before.
                rows = rows if rows is None or begins == NEVER else rows.between(begins, None)
            if begins != self.state.begins:
                self._use(before.beginning(begins))
            try:
                yield from self._take(commit, place, begins, notes, rows)
            except BaseException:
                if self.versions is not before:
                    self._use(before)
                raise

    def _take(self, commit: Commit, place: Place, begins: int, notes: Notes, rows: Paos | None) -> Steps:
        """Take a commit's notes and rows into the panes; windows begin with interval `begins`."""
        state = replace(with_commit(self.state, commit, notes, self.versions), applied=place, begins=begins)
        filling = Filling(self._history, self.versions, commit, notes)
        filling.open()
        change = filling.change
        total = TOTAL if self.windows.plan.window is None else None
        state = settled(self._history.labels, notes, change, state, total)
        if rows is not None:
            try:
                state = filling.add(rows, state)
            except (ArithmeticError, ValueError) as error:
                # States of our own making always merge.
                raise PaoDecodeError(f"the PAOs do not merge: {error}") from None
            newest = max([state.newest, *(found[1] for _, frame in rows.parts if (found := extent(frame)))])
            state = replace(state, newest=newest)
        filling.count_mistyped()
        horizon = self._horizon(state.newest)
        change.expired = [] if horizon is None else self._history.labels.between(None, horizon)
        oldest = max([state.expired, *change.expired])
        chained = None
        if self._chain is not None and horizon is not None:
            gone = tuple(gap for gap in state.gaps if gap[1] <= oldest)
            chained = advance(self._chain, self._history.labels, change, self.state, state, gone, horizon)
            state = state if chained is None else replace(state, base=chained.base)
        state = expired(change, state, oldest)
        self._news.stamp(change, state.edition, known_only_now(notes, self.state, state))
        yield from self._history.writing(msgspec.msgpack.encode(state), change)
        before_ms = self.windows.through_ms
        self.windows.show(state)
        if self._chain is not None and chained is not None:
            self._chain.settle(*chained)
        every_ms = self.windows.plan.definition.options.emit_every_ms
        self._news.committed(change, state.edition, every_ms, before_ms, self.versions.end_ms(commit.through))

    def load(self, load: Load, place: Place) -> None:
        """Take intervals from the archive into the panes, durably; nothing changes where they may not be loaded (now).

        Raises PaoDecodeError on bytes that are not this job's.
        """
        try:
            check_load(self.versions, self.state, load)
        except JobError:
            return self._history.finish(self.noting(place))
        with self.windows.lock:
            loaded, change = with_load(self._history, self.versions, self.state, load)
            state = replace(loaded, applied=place)
            self._history.write(msgspec.msgpack.encode(state), change)
            self.windows.show(state)
            self._news.loaded(change, state.edition)

    def emptied(self, commit: Commit) -> Commit:
        """Return a commit without its rows, whose run of intervals counts as a gap: they cannot be read."""
        first = commit.through if commit.previous == NEVER else commit.previous + 1
        notes = Notes(gaps=((first, commit.through),))
        return replace(commit, payload=pack(notes, self.windows.plan.schema.empty()))

    def doubt(self, until_ms: int) -> None:
        """Label all windows up to a time as lacking something: commits that were made before it may be lost."""
        with self.windows.lock:
            gap = (max(self.state.expired + 1, 0), self.versions.number(until_ms))
            if gap not in self.state.gaps:
                lacks = self.state.lacks | Lacks.of([Lack(None, *gap, Cause.GAP)])
                self._history.finish(self._keeping(self.state.with_lacks(lacks.bounded())))

    def noting(
        self, place: Place, seats: tuple[Seat, ...] | None = None, *, ended: bool = False, kept: bytes | None = None
    ) -> Steps:
        """Remember durably how far the group's log is applied, and its members, and what is kept, if it has changed."""
        with self.windows.lock:
            seats = self.state.seats if seats is None else seats
            kept = self.state.kept if kept is None else kept
            yield from self._keeping(replace(self.state, applied=place, seats=seats, ended=ended, kept=kept))

    def _keeping(self, state: MasterState) -> Steps:
        yield from self._history.writing(msgspec.msgpack.encode(state), Change())
        # No pane changes with it: windows that were made stay as they are.
        self.windows.state = state

    def enlist(self, agent: str, entry: Enlisted, lost: Sequence[str], place: Place) -> None:
        """Remember durably that an agent begins, and which ones it takes the place of."""
        with self.windows.lock:
            state = with_enlisted(self.state, agent, entry, lost)
            self._history.finish(self._keeping(replace(state, applied=place)))

    def retire(self, agent: str, last: int, place: Place) -> None:
        """Remember durably that an agent leaves the roster with the first commit after interval `last`."""
        if self.state.rollup.committed > last:
            return self._history.finish(self.noting(place))
        with self.windows.lock:
            state = replace(self.state, applied=place, retiring={**self.state.retiring, agent: last})
            self._history.finish(self._keeping(state))

    def _horizon(self, newest: int) -> int | None:
        """Return the last interval whose panes need not be retained; None where all are."""
        if self.windows.plan.window is None or newest == NEVER:
            return None
        return max(self.versions.retained(newest, self.windows.plan) - 1, self.windows.forgotten)
