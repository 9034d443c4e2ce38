"""A job's master: panes in, results out (paper: section 3.1, "Job master"; DESIGN 3.6).

A pane is what one commit brought: the merged PAOs of the run of intervals (previous, through] and the facts for its
label. Late rows find the pane of their own interval and raise its revision. A window is made of panes, or of running
totals where there are some (`elf.agents.master.panes`), whenever it is asked for, so any whole number of intervals is a
window. Every commit is durable before the overlay may tell the agents to forget their snapshots.

Methods may be called from worker threads; a lock keeps commits and answers apart.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import polars as pl
from msgspec.structs import replace

from elf.agents.completeness.label import Label, join
from elf.agents.completeness.lacks import Cause, Lack, Lacks
from elf.agents.completeness.runs import ends, length, union, within
from elf.agents.errors import JobError
from elf.agents.jobs.key_texts import with_first_key
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.language.query import Window
from elf.agents.master.backfill import check_load, spliced
from elf.agents.master.beginning import first_interval
from elf.agents.master.chain import Chain
from elf.agents.master.chain_labels import advance, in_chain
from elf.agents.master.commands import Enlisted, Load
from elf.agents.master.commit_rows import TOTAL, Filling
from elf.agents.master.contents import content_of, expired, known_only_now, settled, with_commit
from elf.agents.master.emission import Batch
from elf.agents.master.epochs import Epoch, check_retained, check_whole, epochs, latest
from elf.agents.master.news import News
from elf.agents.master.panes.history import History
from elf.agents.master.panes.past import Change
from elf.agents.master.results import Result, Span, is_awaited
from elf.agents.master.share import Answer, Share
from elf.agents.master.state import MasterState, restored, with_enlisted
from elf.agents.master.window_lacks import archived, lacks_of_window
from elf.agents.store.panes import Panes
from elf.agents.store.shared_transactions import Steps
from elf.agents.worker.paos import Paos, extent
from elf.agents.worker.payload import Notes, pack
from elf.cbt import INTERVAL, PaoDecodeError, decode
from elf.overlay.contract import NEVER, Commit
from elf.overlay.group.messages import Place, Seat

#: Merged windows kept until the next commit: most questions are for the latest one.
CACHED_MAX = 16


class Found(NamedTuple):
    """What a window is made of: merged PAOs, label, gaps that touch it, and how far the job was then."""

    paos: pl.DataFrame
    label: Label
    gaps: int
    through_ms: int | None
    edition: int
    #: The version of the job that its last interval is counted by.
    by: Compiled
    #: Agents that it lacks may still bring their data, and the job wants such results to say so.
    awaited: bool
    #: Of a job that reads its last result: whether that is the same.
    converged: bool | None = None

    def share(self, span: Span | None, limit: int | None, names: Callable[[str], str], *, rows: bool = True) -> Share:
        """Return it with its rows finished, at most `limit`, if any; `names` turns an agent id into one for people."""
        plan, bounds = self.by.plan, None if span is None else (span.start_ms, span.end_ms)
        return Share(
            plan=plan,
            edition=self.edition,
            span=span,
            rows=plan.ranked(self.paos, bounds, limit) if rows else None,
            label=self.label,
            gaps=self.gaps,
            through_ms=self.through_ms,
            names={agent: names(agent) for agent in self.label.missing},
            awaited=self.awaited,
            converged=self.converged,
        )


class Master:
    """The root's side of one job.

    Args:
        job: the compiled job, or its versions.
        store: where commits become durable, and have been.
        state: None for a new job, else what the store had.
    """

    def __init__(self, job: Plan | Versions, store: Panes, state: bytes | None) -> None:
        self.state = restored(state)
        self.versions = Versions.of(job).beginning(self.state.begins)
        self.app = self.versions.newest.plan.definition.app_id
        self._history = History(self.versions, store, self.state.rollup.committed)
        self._history.mend(self.state.expired, self.state.rollup.committed, len(self.state.rollup.roster))
        #: Of a job that reads its last result.
        self._chain = Chain(self.versions, self._history, self.state.base, store) if self.plan.iterating else None
        self._lock = threading.Lock()
        self._cache: dict[Span | None, tuple[pl.DataFrame, Label, bool]] = {}
        self._news = News(self.versions, self._history.labels, self.state.edition)

    @property
    def plan(self) -> Plan:
        """The job as its next interval counts it; some things are the same in all versions."""
        return self.versions.at(self.state.rollup.committed + 1).plan

    def adopt(self, versions: Versions) -> None:
        """Go on with other versions; those that have counted intervals are the same, but for the oldest."""
        with self._lock:
            self._use(versions.beginning(self.state.begins))

    def _use(self, versions: Versions) -> None:
        self.versions = self._news.versions = versions
        self._history.adopt(versions)
        if self._chain is not None:
            self._chain.adopt(versions)
        self._cache.clear()

    @property
    def edition(self) -> int:
        """Rises with every commit, and goes on where it was after a restart."""
        return self.state.edition

    @property
    def through_ms(self) -> int | None:
        """End of the last committed interval; None before the first commit."""
        committed = self.state.rollup.committed
        return None if committed == NEVER else self.versions.end_ms(committed)

    def panes(self, most: int) -> tuple[int, Label | None, list[int]]:
        """Return how many panes are retained, the oldest one's label, and how many rows the `most` newest have."""
        with self._lock:
            labels = self._history.labels
            return len(labels), labels[labels.oldest()] if labels else None, self._history.newest_rows(most)

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
        with self._lock:
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
        total = TOTAL if self.plan.window is None else None
        state = settled(self._history.labels, notes, change, state, total)
        if rows is not None:
            try:
                state = filling.add(rows, state)
            except (ArithmeticError, ValueError) as error:
                # States of our own making always merge.
                raise PaoDecodeError(f"the PAOs do not merge: {error}") from None
            newest = max([state.newest, *(found[1] for _, frame in rows.parts if (found := extent(frame)))])
            state = replace(state, newest=newest)
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
        before_ms = self.through_ms
        self.state = state
        if self._chain is not None and chained is not None:
            self._chain.settle(*chained)
        every_ms = self.plan.definition.options.emit_every_ms
        self._news.committed(change, state.edition, every_ms, before_ms, self.versions.end_ms(commit.through))
        self._cache.clear()

    def load(self, load: Load, place: Place) -> None:
        """Take intervals from the archive into the panes, durably; nothing changes where they may not be loaded (now).

        Raises PaoDecodeError on bytes that are not this job's.
        """
        try:
            check_load(self.versions, self.state, load)
        except JobError:
            return self._history.finish(self.noting(place))
        with self._lock:
            before, schema = self.state, self.plan.schema
            rows = decode(load.block, schema)
            if rows.height and not rows[INTERVAL].is_between(load.first, load.last).all():
                raise PaoDecodeError(f"there are rows of other intervals than {load.first} to {load.last}")
            edition, known = before.edition + 1, union(before.archived, ((load.first - 1, load.last),))
            fresh = Label(0, 0, len(before.rollup.roster), tuple(sorted(load.missing)), changed=edition)
            try:
                change = spliced(self._history, schema, load, rows, fresh, before.archived)
            except (ArithmeticError, ValueError) as error:
                raise PaoDecodeError(f"the PAOs do not merge: {error}") from None
            newest = max([before.newest, *rows[INTERVAL].unique()])
            state = replace(before, applied=place, edition=edition, newest=newest, backfilled=ends(known))
            self._history.write(msgspec.msgpack.encode(state), change)
            self.state = state
            self._news.loaded(change, edition)
            self._cache.clear()

    def emptied(self, commit: Commit) -> Commit:
        """Return a commit without its rows, whose run of intervals counts as a gap: they cannot be read."""
        first = commit.through if commit.previous == NEVER else commit.previous + 1
        notes = Notes(gaps=((first, commit.through),))
        return replace(commit, payload=pack(notes, self.plan.schema.empty()))

    def doubt(self, until_ms: int) -> None:
        """Label all windows up to a time as lacking something: commits that were made before it may be lost."""
        with self._lock:
            gap = (max(self.state.expired + 1, 0), self.versions.number(until_ms))
            if gap not in self.state.gaps:
                lacks = self.state.lacks | Lacks.of([Lack(None, *gap, Cause.GAP)])
                self._history.finish(self._keeping(self.state.with_lacks(lacks.bounded())))

    def noting(
        self, place: Place, seats: tuple[Seat, ...] | None = None, *, ended: bool = False, kept: bytes | None = None
    ) -> Steps:
        """Remember durably how far the group's log is applied, and its members, and what is kept, if it has changed."""
        with self._lock:
            seats = self.state.seats if seats is None else seats
            kept = self.state.kept if kept is None else kept
            yield from self._keeping(replace(self.state, applied=place, seats=seats, ended=ended, kept=kept))

    def _keeping(self, state: MasterState) -> Steps:
        yield from self._history.writing(msgspec.msgpack.encode(state), Change())
        self.state = state

    def enlist(self, agent: str, entry: Enlisted, lost: Sequence[str], place: Place) -> None:
        """Remember durably that an agent begins, and which ones it takes the place of."""
        with self._lock:
            state = with_enlisted(self.state, agent, entry, lost)
            self._history.finish(self._keeping(replace(state, applied=place)))

    def retire(self, agent: str, last: int, place: Place) -> None:
        """Remember durably that an agent leaves the roster with the first commit after interval `last`."""
        if self.state.rollup.committed > last:
            return self._history.finish(self.noting(place))
        with self._lock:
            state = replace(self.state, applied=place, retiring={**self.state.retiring, agent: last})
            self._history.finish(self._keeping(state))

    def result(self, span: Span | None, key: str | None, limit: int | None, names: Callable[[str], str]) -> Result:
        """Answer one window, or the whole job so far for a query without window.

        Args:
            span: see `find`.
            key: see `find`.
            limit: most rows.
            names: turns an agent id into a name for people.
        """
        return Answer.of([self.find(span, key).share(span, limit, names)]).result()

    def find(self, span: Span | None, key: str | None) -> Found:
        """Return what a window, or the whole job so far for a query without window, is made of.

        Args:
            span: half-open window in event time, whole intervals; None for a cumulative job.
            key: only PAOs whose first key is this, as people write it.

        Raises:
            ExpiredError: the window begins before the oldest pane still retained.
            JobError: it is not of whole intervals, or the job reads its last result and has none, or `key` can be none.
        """
        # All of it: a commit that comes between would let panes expire of which the answer is to be made.
        with self._lock:
            if span is not None:
                check_whole(self.versions, span)
                check_retained(self.versions, span, self.expired)
            if self._chain is not None and span is not None:
                self._chain.check(span, self.through_ms)
            # First, for it says why where results cannot be computed.
            converged = None if self._chain is None or span is None else self._chain.is_converged(span.end_ms)
            merged = self._cache.get(span)
            if merged is None:
                if len(self._cache) >= CACHED_MAX:
                    self._cache.clear()
                merged = self._cache[span] = self._merge(span)
            through_ms, edition, by = self.through_ms, self.state.edition, self._counted_by(span)
            gaps = self._gaps_in(span)
        paos, label, awaited = merged
        if key is not None:
            paos = with_first_key(by.plan, paos, key)
        return Found(paos, label, gaps, through_ms, edition, by, awaited, converged)

    def _counted_by(self, span: Span | None) -> Compiled:
        """Return the version that counts a window's last interval; without window, the last that was committed."""
        if span is None:
            return self.versions.at(self.state.rollup.committed)
        return self.versions.at(self.versions.within(span.start_ms, span.end_ms)[1])

    @property
    def _forgotten(self) -> int:
        """The last interval that nobody can be told of any more: not retained, or of a version that is forgotten."""
        oldest = self.versions.all[0].version.since
        return self.state.expired if oldest == NEVER else max(self.state.expired, oldest - 1)

    @property
    def expired(self) -> int:
        """The last interval with which no window may begin any more; NEVER if all may."""
        chained = None if self._chain is None else self._chain.expired
        return self._forgotten if chained is None else max(self._forgotten, chained)

    def latest(self, other: Window | None = None) -> Span | None:
        """Return the last closed window (or the one now open, before any has closed); None for a cumulative job."""
        return latest(self._epochs, self.through_ms or 0, other)

    @property
    def _epochs(self) -> list[Epoch]:
        return epochs(self.versions, self.state.rollup.committed + 1)

    def news(
        self, edition: int, after_ms: int, most: int, other: Window | None = None
    ) -> tuple[list[Span | None], Batch, Batch]:
        """Return what a follower is to be sent; see `elf.agents.master.news`."""
        with self._lock:
            newest, through_ms = self.latest(other), self.through_ms
            if through_ms is None:
                return [newest], Batch([]), Batch([])
            since_ms = NEVER if self.expired == NEVER else self.versions.end_ms(self.expired)
            known = edition if 0 <= edition <= self.state.edition else None
            return self._news.of(known, after_ms, most, newest, (since_ms, through_ms), self._epochs, other)

    def _gaps_in(self, span: Span | None) -> int:
        if span is None:
            return len(self.state.gaps)
        first, last = self.versions.within(span.start_ms, span.end_ms)
        if self._chain is not None:
            first = self._counted_by(span).version.begins
        return len(Lacks(gaps=self.state.gaps).within(first, last).gaps)

    def _merge(self, span: Span | None) -> tuple[pl.DataFrame, Label, bool]:
        history, chain = self._history, self._chain
        version, plan = self._counted_by(span)
        if span is None:
            paos = plan.schema.merge_window([history.pane(TOTAL)] if history.labels else [])
            labels = [history.labels[TOTAL]] if history.labels else []
            label = self._label(labels, version, 0, None)
            return paos, label, is_awaited(plan, labels, self.state.rollup.roster)
        first, last = self.versions.within(span.start_ms, span.end_ms)
        paos = history.window(max(first, version.begins), last) if chain is None else chain.regrouped(first, last)
        # Last: reading a damaged pane changes its label.
        labels = history.labels.joined(max(first, version.begins), last)
        label = self._label(labels, version, first, last)
        if chain is not None:
            since = version.begins if not history.labels else max(version.begins, history.labels.oldest())
            whole = self._label(history.labels.joined(since, last), version, version.begins, last)
            label = in_chain(label, whole, chain.base, version.begins)
        return paos, label, is_awaited(plan, labels, self.state.rollup.roster)

    def _label(self, labels: Sequence[Label], version: Version, first: int, last: int | None) -> Label:
        """Join the labels of panes, and name the agents that lack something from a first to a last interval."""
        roster = self.state.rollup.roster
        if last is None:
            first = max(first, version.begins)
        label = join(labels) if labels else Label(first - 1, first, len(roster))
        label = label.lacking(lacks_of_window(self.state, self.versions, version, first, last))
        known = archived(self.state, version)
        backfilled = 0 if last is None else length(within(known, first - 1, last))
        return replace(label, previous=first - 1, backfilled=backfilled)

    def _horizon(self, newest: int) -> int | None:
        """Return the last interval whose panes need not be retained; None where all are."""
        if self.plan.window is None or newest == NEVER:
            return None
        return max(self.versions.retained(newest, self.plan) - 1, self._forgotten)
