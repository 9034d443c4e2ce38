"""The results of a job that reads its last one: each follows from the one before, the first from a base that is kept.

A window's result is made of its own panes and of the result of the window that ended one slide before. Results are kept
in memory as long as no commit touches what they are made of; all else is computed again, one after the other, from the
nearest that is known. When panes expire, the newest result that needs any of them becomes the base: it is durable, and
every copy of the job's master makes the same of the same commits. Paper: section 2.1, dataflow cycles.

A window without rows has no rows in its result, whatever was before it: chains begin there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl
from sortedcontainers import SortedDict

from elf.agents.completeness.label import Label
from elf.agents.errors import JobError
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Versions
from elf.agents.language.durations import duration
from elf.agents.language.instants import instant
from elf.agents.language.iteration import check_size
from elf.agents.master.panes.history import History
from elf.agents.master.panes.labels import Labels
from elf.agents.master.panes.past import Change
from elf.agents.master.results import Span
from elf.agents.master.state import Base
from elf.agents.store.checksums import DamagedError
from elf.agents.store.panes import Kind, Panes, Place
from elf.agents.worker.paos import between
from elf.cbt import INTERVAL, PaoDecodeError, PaoSchema, decode
from elf.cbt.schema import without_interval

#: Rows and bytes of results kept in memory; of more, the oldest windows' are computed again when they are asked for.
KEPT_ROWS, KEPT_BYTES = 1_000_000, 256 << 20
#: Results that one commit may have to compute until there is a new base, as when old logs are read in: a chain that
#: would be longer begins anew so many windows before.
STEPS_MAX = 1_024
#: Where the rows of the base lie.
BASE: Place = (Kind.LAST, 0)

#: What computing a result fails with, whatever it was given; a panic in Polars does not derive from Exception.
_FAILURES = (ArithmeticError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
#: Rows, or why there are none.
_Outcome = pl.DataFrame | str
#: Returns the merged PAOs of intervals, both ends included.
Read = Callable[[int, int], pl.DataFrame]


class Chain:
    """The results of one job.

    Args:
        versions: of the job; all of them read the same and make the same.
        history: the job's past.
        base: the oldest result there is; None before any pane has expired.
        store: where its rows are durable.
    """

    def __init__(self, versions: Versions, history: History, base: Base | None, store: Panes) -> None:
        self.versions = versions
        self._history = history
        self.base = base
        self._none = pl.DataFrame(schema={name: kind.dtype for name, kind in self.plan.output})
        self._base_rows = self._none if base is None else self._loaded(store)
        self._kept: SortedDict[int, _Outcome] = SortedDict()
        #: Ends of windows, as far as they were computed, whose results lack values that do not fit into their types.
        self._lacking: set[int] = set()
        self._filled = _Filled(history.labels, history.pane)

    @property
    def plan(self) -> Plan:
        """The job as it counts now; what matters here is the same in all versions."""
        return self.versions.newest.plan

    @property
    def window(self) -> tuple[int, int]:
        """Size and slide of windows, ms."""
        assert self.plan.window is not None
        return self.plan.window

    @property
    def expired(self) -> int | None:
        """The last interval with which a window may begin that is too old to be answered; None if there is none."""
        return None if self.base is None else (self.base.end_ms - self.window[0]) // self.plan.interval_ms

    def check(self, span: Span, through_ms: int | None) -> None:
        """Refuse windows that have no place in the chain.

        Raises:
            JobError: it is none of the job's own, or it is open.
        """
        size_ms, slide_ms = self.window
        if span.end_ms - span.start_ms != size_ms or span.start_ms % slide_ms:
            raise JobError(
                f"this job reads its last result, so it answers its own windows only: {duration(size_ms)} long, "
                f"one every {duration(slide_ms)} since 1970; {instant(span.start_ms)}/{instant(span.end_ms)} is none"
            )
        if span.end_ms > (through_ms or 0):
            raise JobError("this job reads its last result, so it answers closed windows only; this one is open")

    # ---- results

    def last(self, end_ms: int) -> pl.DataFrame:
        """Return what the window that ends then has for its last result: nothing, if it is the first one.

        O(windows since the nearest one whose result is known).

        Raises:
            JobError: that could not be computed.
        """
        return self._result(end_ms - self.window[1], end_ms)

    def is_converged(self, end_ms: int) -> bool:
        """Tell whether a window's result is its last one, and has rows; JobError as of `last`."""
        after, before = self._result(end_ms, end_ms), self.last(end_ms)
        return bool(after.height) and after.equals(before)

    def regrouped(self, first: int, last: int) -> pl.DataFrame:
        """Return the PAOs that the result of a window is made of: its own, joined with its last result.

        Raises:
            JobError: as of `last`.
        """
        iterating = self.plan.iterating
        assert iterating is not None
        return iterating.regroup(self._read(first, last), self.last((last + 1) * self.plan.interval_ms))

    def _read(self, first: int, last: int) -> pl.DataFrame:
        first = max(first, self._begins(last))
        return self._history.window(first, last) if first <= last else without_interval(self.plan.schema.empty())

    def _begins(self, interval: int) -> int:
        """Return the first interval of the windows of the version that counts an interval."""
        return self.versions.at(interval).version.begins

    def lacking(self, end_ms: int, begins: int) -> int:
        """Return how many results since the base lack values, of those that windows that end later follow from.

        Args:
            end_ms: until when these windows end, this time included.
            begins: what was before this interval counts nothing.
        """
        return sum(begins * self.plan.interval_ms < each <= end_ms for each in self._lacking)

    def _result(self, end_ms: int, for_ms: int) -> pl.DataFrame:
        """Return the result of a window as that which ends at `for_ms` sees it, and keep what is computed."""
        outcome, ends = self._way(end_ms, self._begins(self._intervals(for_ms)[1]), self._is_empty)
        fresh = 0
        for each in reversed(ends):
            outcome = self._kept[each] = self._step(each, outcome, self._read)
            fresh += 0 if isinstance(outcome, str) else int(outcome.estimated_size())
            if fresh > KEPT_BYTES // 4:
                self._bound()
                fresh = 0
        self._bound()
        if isinstance(outcome, str):
            raise JobError(outcome)
        return outcome

    def _way(
        self, end_ms: int, begins: int, is_empty: Callable[[int, int], bool], most: int | None = None
    ) -> tuple[_Outcome, list[int]]:
        """Return the nearest result before a window that is known, and the windows from there on, the last one first.

        Args:
            end_ms: the window's end.
            begins: what was before this interval counts nothing.
            is_empty: whether some intervals have no rows.
            most: windows; after so many, nothing was before them.
        """
        ends: list[int] = []
        while most is None or len(ends) < most:
            if end_ms <= begins * self.plan.interval_ms:
                return self._none, ends
            if self.base is not None and end_ms <= self.base.end_ms:
                return self.base.failed or self._base_rows, ends
            if end_ms in self._kept:
                return self._kept[end_ms], ends
            if is_empty(*self._intervals(end_ms)):
                return self._none, ends
            ends.append(end_ms)
            end_ms -= self.window[1]
        return self._none, ends

    def _is_empty(self, first: int, last: int) -> bool:
        keys = self._history.labels.holding(first, last)
        return not any(self._filled.any(key, first, last) for key in keys if not self._history.is_empty(key))

    def _intervals(self, end_ms: int) -> tuple[int, int]:
        """Return a window's first and last interval."""
        return (end_ms - self.window[0]) // self.plan.interval_ms, end_ms // self.plan.interval_ms - 1

    def _step(self, end_ms: int, last: _Outcome, read: Read) -> _Outcome:
        """Compute the result of a window from its last one."""
        if isinstance(last, str):
            return last
        plan, size_ms = self.plan, self.window[0]
        assert plan.iterating is not None
        try:
            merged = plan.iterating.regroup(read(*self._intervals(end_ms)), last)
            rows, overflows = plan.told(merged, (end_ms - size_ms, end_ms))
            if overflows.count:
                self._lacking.add(end_ms)
            check_size(rows)
        except JobError as error:
            return f"{error} (in the window until {instant(end_ms)}; `elf reset` begins anew)"
        except _FAILURES as error:
            # A value that an expression fails on must not keep commits from being applied.
            why = str(error).partition("\n")[0]
            return f"it cannot be computed: {why} (in the window until {instant(end_ms)}; `elf reset` begins anew)"
        return rows

    def _bound(self) -> None:
        """Keep no more in memory than is allowed; the newest stay."""
        rows = size = 0
        for end_ms in reversed(list(self._kept)):
            outcome = self._kept[end_ms]
            if not isinstance(outcome, str):
                rows, size = rows + outcome.height, size + int(outcome.estimated_size())
            if rows > KEPT_ROWS or size > KEPT_BYTES:
                del self._kept[end_ms]

    # ---- commits

    def adopt(self, versions: Versions) -> None:
        """Go on with other versions of the job."""
        self.versions = versions
        self._kept.clear()
        self._lacking.clear()

    def touch(self, interval: int) -> None:
        """Forget what rests on an interval, which a commit changes."""
        self._filled.forget()
        for end_ms in list(self._kept.irange(interval * self.plan.interval_ms, inclusive=(False, True))):
            del self._kept[end_ms]
        self._lacking = {end_ms for end_ms in self._lacking if end_ms <= interval * self.plan.interval_ms}

    def advanced(self, change: Change, horizon: int) -> tuple[int, _Outcome, int] | None:
        """Compute the base that there has to be before the panes up to an interval go.

        Args:
            change: a commit's, with these panes, and not durable yet.
            horizon: that interval.

        Returns:
            When its window ends, its rows or why there are none, and what else it lacks: that the chain had to begin
            anew, results with values that are not there; None as long as there is none and nothing is lost without one.
        """
        window = self.plan.window
        assert window is not None
        end_ms = window.ended_by(horizon * self.plan.interval_ms + window.size_ms)
        if self.base is not None and end_ms <= self.base.end_ms:
            return self.base.end_ms, self.base.failed or self._base_rows, 0
        # Nothing of this is kept before it is durable; what is kept already, this commit does not touch.
        read = _Overlay(self._history, self.versions, change)
        begins = self._begins(self._intervals(end_ms)[1])
        # Whatever was asked of this copy before: all of them cut alike.
        kept, lacking = self._kept, self._lacking
        self._kept = SortedDict()
        self._lacking = set()
        outcome, ends = self._way(end_ms, begins, read.is_empty, STEPS_MAX)
        is_cut = len(ends) == STEPS_MAX
        if not is_cut:
            self._kept = kept
            self._lacking = lacking
            outcome, ends = self._way(end_ms, begins, read.is_empty)
        if self.base is None and not ends and outcome is self._none and not change.expired:
            return None
        for each in reversed(ends):
            outcome = self._step(each, outcome, read)
        return end_ms, outcome, is_cut + self.lacking(end_ms, begins)

    def settle(self, base: Base, outcome: _Outcome) -> None:
        """Go on from a base that has become durable."""
        self._filled.forget()
        self.base = base
        self._base_rows = self._none if isinstance(outcome, str) else outcome
        for end_ms in list(self._kept.irange(maximum=base.end_ms)):
            del self._kept[end_ms]
        self._lacking = {end_ms for end_ms in self._lacking if end_ms > base.end_ms}

    def packed(self, outcome: _Outcome) -> pl.DataFrame:
        """Return rows as the store keeps them."""
        rows = self._none if isinstance(outcome, str) else outcome
        named = rows.rename(dict(zip(rows.columns, self._shape.key_names, strict=True)))
        return named.select(pl.lit(0, dtype=pl.Int64).alias(INTERVAL), pl.all())

    @property
    def _shape(self) -> PaoSchema:
        """The base's rows as PAOs without states."""
        return PaoSchema(tuple((f"o{n}", kind.dtype) for n, (_, kind) in enumerate(self.plan.output)), ())

    def _loaded(self, store: Panes) -> pl.DataFrame:
        """Read the base's rows; none are left of a damaged one, and its label says so."""
        assert self.base is not None
        try:
            rows = without_interval(decode(store.block(self.plan.definition.app_id, *BASE), self._shape))
        except (DamagedError, PaoDecodeError):
            self.base = self.base.lacking(1)
            return self._none
        return rows.rename(dict(zip(rows.columns, self._none.columns, strict=True)))


class _Filled:
    """Tells in which intervals panes have rows: that of a long run may have them in few.

    Args:
        labels: of the panes.
        pane: reads one.
    """

    def __init__(self, labels: Labels | Mapping[int, Label], pane: Callable[[int], pl.DataFrame]) -> None:
        self._labels = labels
        self._pane = pane
        #: Of panes of long runs: the intervals that have rows, ascending.
        self._known: dict[int, npt.NDArray[np.int64]] = {}

    def any(self, key: int, first: int, last: int) -> bool:
        """Tell whether a pane has rows of these intervals, both ends included."""
        label = self._labels[key]
        if label.previous + 1 == label.through:
            return self._pane(key).height > 0
        if key not in self._known:
            self._known[key] = self._pane(key)[INTERVAL].unique().sort().to_numpy()
        begin, end = np.searchsorted(self._known[key], [first, last + 1])
        return bool(begin < end)

    def forget(self) -> None:
        """Forget what was known: panes have changed."""
        self._known.clear()


class _Overlay:
    """Reads windows as they will be after a change, with the panes that expire with it."""

    def __init__(self, history: History, versions: Versions, change: Change) -> None:
        self._history = history
        self._versions = versions
        self._change = change
        self._filled = _Filled(
            {**{label.through: label for label in history.labels.all()}, **change.labels}, self._pane
        )

    def _pane(self, key: int) -> pl.DataFrame:
        return self._history.pane(key, self._change)

    def __call__(self, first: int, last: int) -> pl.DataFrame:
        schema = self._versions.at(last).plan.schema
        first = max(first, self._versions.at(last).version.begins)
        frames = [self._pane(key) for key in self._holding(first, last)]
        return schema.merge_window([between(frame, first, last) for frame in frames])

    def is_empty(self, first: int, last: int) -> bool:
        """Tell whether these intervals have no rows."""
        return not any(self._filled.any(key, first, last) for key in self._holding(first, last))

    def _holding(self, first: int, last: int) -> list[int]:
        change = self._change
        old = {key for key in self._history.labels.holding(first, last) if key not in change.extended}
        new = {key for key, label in change.labels.items() if label.previous < last and key >= first}
        return sorted(old | new)
