"""The windows of a job, made of its panes whenever they are asked for (paper: section 3.1, "Job master"; DESIGN 3.6).

Owns what is told of a job: rows and label of any window of whole intervals, which windows there are, which one is meant
by what a person asks for, and what is new. Which panes there are is `elf.agents.master.master`'s to change; it hands in
each state that has become durable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import polars as pl
from msgspec.structs import replace

from elf.agents.completeness.label import Label, join
from elf.agents.completeness.lacks import Lacks
from elf.agents.completeness.overflows import NONE
from elf.agents.completeness.runs import length, within
from elf.agents.errors import JobError
from elf.agents.jobs.key_texts import with_first_key
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.language.query import Window
from elf.agents.master.chain import Chain
from elf.agents.master.chain_labels import in_chain
from elf.agents.master.commit_rows import TOTAL
from elf.agents.master.emission import Batch
from elf.agents.master.epochs import Epoch, check_retained, check_whole, epochs, latest
from elf.agents.master.news import News
from elf.agents.master.panes.history import History
from elf.agents.master.results import Result, Span, is_awaited
from elf.agents.master.share import Answer, Share
from elf.agents.master.state import MasterState
from elf.agents.master.window_lacks import archived, lacks_of_window
from elf.agents.master.window_texts import Last, Latest, parse_window
from elf.agents.wire.positions import Json
from elf.overlay.contract import NEVER

#: Merged windows kept until the next commit: most questions are for the latest one.
CACHED_MAX = 16
#: Panes whose rows are told.
ROWS_OF = 64


class Windows:
    """The windows of one job.

    Args:
        versions: of the job.
        state: what its master remembers besides the panes.
        history: the panes.
        chain: of a job that reads its last result.
        news: which panes changed.
    """

    def __init__(
        self, versions: Versions, state: MasterState, history: History, chain: Chain | None, news: News
    ) -> None:
        self.versions = versions
        self.state = state
        #: Held while an answer is made of the panes, and by who changes them.
        self.lock = threading.Lock()
        #: Agents of which no line is read, for nobody knows what they are.
        self.unread: Callable[[], frozenset[str]] = frozenset
        self._history = history
        self._chain = chain
        self._news = news
        self._cache: dict[Span | None, tuple[pl.DataFrame, Label, bool]] = {}

    def adopt(self, versions: Versions) -> None:
        """Make windows as other versions say; the lock is the caller's."""
        self.versions = self._news.versions = versions
        self._cache.clear()

    def show(self, state: MasterState) -> None:
        """Make windows of panes that have changed, and of the state with them; the lock is the caller's."""
        self.state = state
        self._cache.clear()

    @property
    def plan(self) -> Plan:
        """The job as its next interval counts it; some things are the same in all versions."""
        return self.versions.at(self.state.rollup.committed + 1).plan

    @property
    def edition(self) -> int:
        """Rises with every commit, and goes on where it was after a restart."""
        return self.state.edition

    @property
    def through_ms(self) -> int | None:
        """End of the last committed interval; None before the first commit."""
        committed = self.state.rollup.committed
        return None if committed == NEVER else self.versions.end_ms(committed)

    @property
    def forgotten(self) -> int:
        """The last interval that nobody can be told of any more: not retained, or of a version that is forgotten."""
        oldest = self.versions.all[0].version.since
        return self.state.expired if oldest == NEVER else max(self.state.expired, oldest - 1)

    @property
    def expired(self) -> int:
        """The last interval with which no window may begin any more; NEVER if all may."""
        chained = None if self._chain is None else self._chain.expired
        return self.forgotten if chained is None else max(self.forgotten, chained)

    @property
    def expired_ms(self) -> int | None:
        """The time before which no window may begin, for its panes have expired; None if none has."""
        return None if self.expired == NEVER else self.versions.end_ms(self.expired)

    @property
    def oldest_ms(self) -> int | None:
        """Where the oldest pane that is retained begins; None without panes, and for a job without windows."""
        with self.lock:
            labels = self._history.labels
            oldest = labels[labels.oldest()] if labels else None
        if oldest is None or self.plan.window is None:
            return None
        return self.versions.start_ms(oldest.through if oldest.previous == NEVER else oldest.previous + 1)

    def panes(self) -> Json:
        """Tell how many panes are retained, and of the newest: how many have rows, how many in all, and most of one."""
        with self.lock:
            count, newest = len(self._history.labels), self._history.newest_rows(ROWS_OF)
        rows = [rows for rows in newest if rows]
        return {"count": count, "filled": len(rows), "rows": sum(rows), "rows_max": max(rows, default=0)}

    def resolve(self, window: str) -> Span | None:
        """Turn the text of a window into whole intervals of this job.

        Raises:
            JobError: the job has no windows, or the window does not consist of whole intervals.
        """
        asked = parse_window(window)
        if isinstance(asked, Latest):
            return self.latest()
        if self.plan.window is None:
            raise JobError("this job has no window: it counts since it began; ask for `latest`")
        if isinstance(asked, Last):
            end_ms = self.through_ms or 0
            asked = Span(end_ms - asked.length_ms, end_ms)
        check_whole(self.versions, asked)
        return asked

    def result(self, span: Span | None, key: str | None, limit: int | None, names: Callable[[str], str]) -> Result:
        """Answer one window of a job of one part; see `share`."""
        return Answer.of([self.share(span, key, limit, names)]).result()

    def share(
        self,
        span: Span | None,
        key: str | None,
        limit: int | None,
        names: Callable[[str], str],
        version: int | None = None,
    ) -> Share:
        """Return the share of one window, or of the whole job so far for a query without window.

        Args:
            span: half-open window in event time, whole intervals; None for a cumulative job.
            key: only rows whose first key is this, as people write it.
            limit: most rows.
            names: turns an agent id into a name for people.
            version: no rows are wanted if another one counts the window.

        Raises:
            ExpiredError: the window begins before the oldest pane still retained.
            JobError: it is not of whole intervals, or the job reads its last result and has none, or `key` can be none.
        """
        # All of it: a commit that comes between would let panes expire of which the answer is to be made.
        with self.lock:
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
            through_ms, edition, plan = self.through_ms, self.state.edition, self._counted_by(span).plan
            gaps = self._gaps_in(span)
        paos, label, awaited = merged
        if key is not None:
            paos = with_first_key(plan, paos, key)
        bounds = None if span is None else (span.start_ms, span.end_ms)
        wanted = version in (None, plan.definition.version)
        rows, overflows = plan.ranked_and_told(paos, bounds, limit) if wanted else (None, NONE)
        is_closed = span is not None and through_ms is not None and span.end_ms <= through_ms
        # Whom a window lacks, or waits for.
        wanted_of = label.missing if is_closed else (*label.missing, *self.state.rollup.roster)
        is_unread = not self.unread().isdisjoint(wanted_of)
        return Share(
            plan=plan,
            edition=edition,
            span=span,
            rows=rows,
            overflows=overflows,
            label=label,
            gaps=gaps,
            through_ms=through_ms,
            names={agent: names(agent) for agent in label.missing},
            is_unread=is_unread,
            awaited=awaited,
            converged=converged,
        )

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
        with self.lock:
            newest, through_ms = self.latest(other), self.through_ms
            if through_ms is None:
                return [newest], Batch([]), Batch([])
            since_ms = NEVER if self.expired_ms is None else self.expired_ms
            known = edition if 0 <= edition <= self.state.edition else None
            return self._news.of(known, after_ms, most, newest, (since_ms, through_ms), self._epochs, other)

    def _counted_by(self, span: Span | None) -> Compiled:
        """Return the version that counts a window's last interval; without window, the last that was committed."""
        if span is None:
            return self.versions.at(self.state.rollup.committed)
        return self.versions.at(self.versions.within(span.start_ms, span.end_ms)[1])

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
            # Its own values that are not there are told beside the label.
            lacking = chain.lacking(span.end_ms - 1, version.begins)
            label = in_chain(label, whole, chain.base, version.begins, lacking)
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
