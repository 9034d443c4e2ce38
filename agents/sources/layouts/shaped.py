"""Lines of layouts read by columns, where there are no kernels: the usual ones together, by regular expressions.

What this finds is what the twin finds, which reads all other lines. Some 5 us a line, for which the twin takes 100.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.sources import event_time
from elf.agents.sources.columns import copied, filled, is_text, runs
from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.program import TIME_OUTPUT
from elf.agents.sources.layouts.twin import Twin, decoded
from elf.agents.sources.layouts.usual import CLF, Usual, usual_lines
from elf.agents.sources.lines import rows as rows_of
from elf.agents.sources.native import Bitmap, Ends, Misfits, Spans
from elf.agents.sources.times.notations import NO_TIME

#: So many lines are worth a regular expression.
_LINES_MIN = 16
_INTEGER, _DECIMAL = "^[0-9]{1,18}$", r"^[0-9]{1,17}(?:\.[0-9]{1,17})?$"
_REQUEST = r"(?s)^([!#$%&'*+.^_`|~0-9A-Za-z-]+)( )(.+)( )([A-Z]+/[0-9](?:\.[0-9])?)$"


class ShapedLines(Twin):
    """See `elf.agents.sources.native.Kernels`, which this is one of. Threads may share it.

    Args:
        lines_min: so many lines are worth a regular expression.
    """

    def __init__(self, lines_min: int = _LINES_MIN) -> None:
        self._lines_min = lines_min
        self._usual: dict[bytes, tuple[Usual | None, list[int], list[Kind]]] = {}

    def take_apart(
        self,
        programs: Sequence[bytes],
        block: bytes,
        ends: Ends,
        spans: Sequence[Spans],
        times: npt.NDArray[np.int64],
        layouts: npt.NDArray[np.uint8],
        misfits: Misfits,
        /,
    ) -> tuple[int, int]:
        """Take lines apart."""
        count = len(ends)
        usual = self._of(programs[0])[0]
        if count < self._lines_min or usual is None or not is_text(block):
            return super().take_apart(programs, block, ends, spans, times, layouts, misfits)
        bounds = np.append(0, ends + 1).astype(np.int64)
        found: list[Spans] = [np.full((count, 2), -1, np.int32) for _ in spans]
        ms, of = np.full(count, NO_TIME), np.zeros(count, np.uint8)
        left = self._match(programs[0], block, bounds, found, ms)
        is_misfit, unfit = np.zeros(count, np.bool_), 0
        for first, last in runs(left):
            size, begin = last - first, int(bounds[first])
            own = [np.empty((size, 2), np.int32) for _ in spans]
            own_ms, own_of, odd = np.empty(size, np.int64), np.empty(size, np.uint8), np.empty((size, 4), np.int32)
            text, places = block[begin : int(bounds[last])], ends[first:last] - begin
            rows, bad = super().take_apart(programs, text, places, own, own_ms, own_of, odd)
            odd[:bad, 0] += first
            misfits[unfit : unfit + bad] = odd[:bad]
            is_misfit[odd[:bad, 0]] = True
            fitting = np.flatnonzero(~is_misfit[first:last]) + first
            for out, part in zip(found, own, strict=True):
                out[fitting] = np.where(part[:rows] >= 0, part[:rows] + begin, -1)
            ms[fitting], of[fitting] = own_ms[:rows], own_of[:rows]
            unfit += bad
        for out, whole in zip(spans, found, strict=True):
            out[: count - unfit] = whole[~is_misfit]
        times[: count - unfit], layouts[: count - unfit] = ms[~is_misfit], of[~is_misfit]
        return count - unfit, unfit

    def _of(self, program: bytes) -> tuple[Usual | None, list[int], list[Kind]]:
        """Return the usual lines of a layout, and of each slot its output and its kind."""
        known = self._usual.get(program)
        if known is None:
            read, outputs = decoded(program)
            kinds = {step.slot: step.kind for step in read.steps}
            known = usual_lines(read), outputs, [kinds[slot] for slot in range(len(outputs))]
            self._usual[program] = known
        return known

    def _match(
        self,
        program: bytes,
        block: bytes,
        bounds: npt.NDArray[np.int64],
        found: Sequence[Spans],
        ms: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.intp]:
        """Read the usual lines; returns which are left."""
        usual, outputs, kinds = self._of(program)
        assert usual is not None
        groups = rows_of(block, bounds).str.extract_groups(usual.pattern).struct.unnest().get_columns()
        has = groups[0].is_not_null()
        chosen = np.flatnonzero(has.to_numpy())
        if len(chosen) < len(has):
            groups = [group.filter(has) for group in groups]
        slot = next((slot for slot in usual.time if outputs[slot] == TIME_OUTPUT), None)
        if slot is not None and len(chosen):
            texts = groups[usual.slots[slot]].to_list()
            times = (event_time.web_server if usual.time[slot] == CLF else event_time.iso)(texts)
            # What is no time by columns, the second 60 say, may be one by itself.
            is_time = times != NO_TIME
            groups = groups if is_time.all() else [group.filter(pl.Series(is_time)) for group in groups]
            chosen, times = chosen[is_time], times[is_time]
            ms[chosen] = times
        if not len(chosen):
            return np.arange(len(bounds) - 1)
        lengths = np.stack([group.str.len_bytes().to_numpy().astype(np.int64) for group in groups], axis=1)
        places = np.cumsum(np.concatenate([bounds[chosen][:, None], lengths], axis=1), axis=1)
        for slot, (group, output) in enumerate(zip(usual.slots, outputs, strict=True)):
            if output < 0 or group < 0:
                continue
            span = places[:, [group, group + 1]]
            if kinds[slot] is not Kind.BYTES:
                span[(groups[group] == "-").to_numpy()] = -1
            if kinds[slot] in (Kind.REQUEST, Kind.REST):
                span[lengths[:, group] == 0] = -1
            found[output][chosen] = span
        return np.setdiff1d(np.arange(len(bounds) - 1), chosen, assume_unique=True)

    def integers(self, block: bytes, spans: Spans, out: npt.NDArray[np.int64], valid: Bitmap, /) -> int:
        """Read integers."""
        twin = super().integers

        def rest(spans: Spans, out: npt.NDArray[np.int64], valid: Bitmap) -> int:
            return twin(block, spans, out, valid)

        return filled(block, spans, (pl.Int64(), _INTEGER), rest, out, valid)

    def decimals(
        self, block: bytes, spans: Spans, is_duration: bool, out: npt.NDArray[np.float64], valid: Bitmap, /
    ) -> int:
        """Read numbers or durations."""
        twin = super().decimals
        if is_duration:
            return twin(block, spans, is_duration, out, valid)

        def rest(spans: Spans, out: npt.NDArray[np.float64], valid: Bitmap) -> int:
            return twin(block, spans, is_duration, out, valid)

        return filled(block, spans, (pl.Float64(), _DECIMAL), rest, out, valid)

    def requests(self, block: bytes, spans: Spans, method: Spans, uri: Spans, protocol: Spans, /) -> None:
        """Take requests apart."""
        if not is_text(block):
            super().requests(block, spans, method, uri, protocol)
            return
        for out in (method, uri, protocol):
            out[: len(spans)] = -1
        rows = np.flatnonzero(spans[:, 0] >= 0)
        groups = rows_of(*copied(block, spans[rows])).str.extract_groups(_REQUEST).struct.unnest()
        first = groups.to_series(0)
        has = (first.is_not_null() & (first != "-")).fill_null(False)
        rows = rows[has.to_numpy()]
        lengths = groups.filter(has).select(pl.all().str.len_bytes()).to_numpy().astype(np.int64)
        places = np.cumsum(np.concatenate([spans[rows][:, :1].astype(np.int64), lengths], axis=1), axis=1)
        for out, at in ((method, 0), (uri, 2), (protocol, 4)):
            out[rows] = places[:, [at, at + 1]]

    def uris(self, block: bytes, spans: Spans, path: Spans, query: Spans, host: Spans | None, /) -> None:
        """Take addresses apart."""
        if host is not None:
            super().uris(block, spans, path, query, host)
            return
        marks = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("?"))
        has = spans[:, 0] >= 0
        at = np.searchsorted(marks, spans[:, 0])
        mark = np.append(marks, len(block))[at]
        has_mark = has & (mark < spans[:, 1])
        path[: len(spans)] = spans
        path[:, 1][: len(spans)][has_mark] = mark[has_mark]
        query[: len(spans)] = -1
        has_query = has_mark & (mark + 1 < spans[:, 1])
        query[: len(spans)][has_query] = np.stack([mark + 1, spans[:, 1]], axis=1)[has_query]
