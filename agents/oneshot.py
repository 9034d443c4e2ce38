"""One shot: a job over files as they are now, in one process, with no overlay (`elf run --once`).

The same parsing, plan and buffer tree as in an agent, driven by a plain loop: memory holds one chunk of lines and the
PAOs of all keys, never the events. Every window with events is evaluated; nothing is late here.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from elf.agents.completeness.overflows import Overflows
from elf.agents.errors import JobError, did_you_mean, nearest
from elf.agents.extensions.signed.runners import Runners
from elf.agents.intake.batches import Gathered, Gathering, events_of
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.language.dialect import refused
from elf.agents.language.instants import instant
from elf.agents.language.iteration import check_size
from elf.agents.language.query import columns_read
from elf.agents.language.types import SqlType
from elf.agents.sources.carried import Carrying
from elf.agents.sources.counters import Counters, Oddities
from elf.agents.sources.files.inputs import Input, Inputs, find_inputs, logs_of
from elf.agents.sources.format import Format, make_format
from elf.agents.sources.inference import infer
from elf.agents.sources.json_lines import NO_OBJECTS, JsonLines
from elf.agents.worker.poison import insert_whatever, parse_whatever
from elf.cbt.schema import INTERVAL
from elf.cbt.tree import BufferTree

CHUNK_BYTES = 4 << 20
#: Of a file all lines of which a filter rules out: so many are parsed to see whether any is an event at all.
LOOKED_AT_BYTES = 128 << 10
WINDOW_COLUMNS = ("window_start", "window_end")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The rows of all windows in order of time, and what became of every line.

    For a job with windows the first two columns are `window_start` and `window_end` (UTC).
    """

    frame: pl.DataFrame
    counters: Counters
    inputs: Inputs
    #: The first rejected line, cut, and why; None when there was none.
    rejected: tuple[bytes, str] | None = None
    #: What would be right for each file no line of which is an event: all rejected, or skipped and would have been.
    misfits: Mapping[str, str] = field(default_factory=dict)
    #: Events left out, because the job's expressions or functions fail on them.
    failed: int = 0
    #: Values that do not fit their columns' types, by column: the column's type, and how many are null for it.
    mistyped: Mapping[str, tuple[SqlType, int]] = field(default_factory=dict)
    #: Values that are NULL, for they do not fit into their types: by window, and of a job without windows, of all time.
    overflows: Sequence[tuple[str, Overflows]] = ()


def evaluate(
    definition: Definition,
    inputs: Sequence[str] | Inputs,
    format: str | Sequence[str],
    columns: Mapping[str, SqlType] | None = None,
    time: str = "ts",
    zone: zoneinfo.ZoneInfo | None = None,
    unwrap: str = "",
) -> Outcome:
    """Run a job once over files. O(lines + windows * keys).

    Args:
        definition: the job; its source's name does not matter here.
        inputs: names, globs, or `-` for standard input; what is compressed is decompressed.
        format: as in a source's settings.
        columns: types of JSON columns; those neither here nor in the job are inferred from a sample.
        time: JSON field with the event time.
        zone: of times that do not say theirs; None: UTC if this machine's is.
        unwrap: JSON field with texts that are objects themselves.

    Raises:
        JobError: no file matches, or one that is named cannot be read.
        DamagedError: one that a glob matches cannot be read to its end.
        JobSpecError: the job cannot run as written.
        ConfigError: the format is none of ours.
    """
    found = inputs if isinstance(inputs, Inputs) else find_inputs(inputs)
    parser = make_format(format, time=time, zone=zone, unwrap=unwrap)
    # Whoever runs a file of their own need not have signed its functions; they are confined all the same.
    functions = Runners(None)
    plan = compile_job(definition, _types(definition, parser, columns or {}, found.files), functions.admit)
    try:
        return _evaluated(plan, parser, found)
    finally:
        functions.close()


def _evaluated(plan: Plan, parser: Format, found: Inputs) -> Outcome:
    taker, failed, oddities = _Taker(plan), 0, Oddities()
    ends: dict[str, Counters] = {}
    rejected: dict[str, tuple[bytes, str]] = {}
    for file, (parts,) in _gathered(plan, parser, found.files):
        for part in parts:
            ends[file] = ends.get(file, Counters()) + part.counters
            oddities += part.oddities
            if part.rejects:
                rejected.setdefault(file, part.rejects[0])
        events = events_of(parts)
        if events.height:
            failed += insert_whatever(taker, events)
    misfits = {
        file.name: said
        for file in found.files
        if file.name in ends and (said := _misfit(parser, file, ends[file.name], rejected.get(file.name)))
    }
    first = next(iter(rejected.values()), None)
    counters = sum(ends.values(), Counters())
    mistyped = {name: (plan.columns[name], count) for name, count in sorted(oddities.mistyped.items())}
    rows, overflows = _rows(plan, taker.tree.snapshot())
    return Outcome(rows, counters, found, first, misfits, failed, mistyped, overflows)


def _misfit(parser: Format, file: Input, ends: Counters, rejected: tuple[bytes, str] | None) -> str | None:
    """Say what would be right for a file no line of which is an event; None for others, and for one without lines.

    Where all lines but `rejected` ones were skipped unparsed, its first lines tell.
    """
    if ends.parsed or ends.read == ends.headers:
        return None
    if ends.filtered:
        front = file.front()
        if rejected is None:
            front = front[: front.rfind(b"\n", 0, LOOKED_AT_BYTES) + 1] or front
        parts = list(parse_whatever(parser, parser.keep(front), {}))
        if any(part.counters.parsed for part in parts):
            return None
        rejected = rejected or next(part.rejects[0] for part in parts if part.rejects)
    assert rejected is not None
    # It knows every format; whoever reads JSON does without them.
    from elf.agents.sources.advice import advice

    return advice(parser, *rejected)


def _gathered(plan: Plan, parser: Format, files: Sequence[Input]) -> Iterator[Gathered]:
    """Yield what the lines of each file are, as many at a time as are worth it."""
    lines = Gathering(parser, [plan.literals], [plan.columns], CHUNK_BYTES)
    goes_on = parser.carrier is not None and parser.carrier.goes_on
    for log in logs_of(files) if goes_on else ([file] for file in files):
        carrying = Carrying(parser.carrier)
        for file in log:
            for chunk in file.chunks(CHUNK_BYTES):
                lines.add(file.name, chunk, carrying.before(chunk))
                if lines.is_enough:
                    yield from lines.take()
        if left := carrying.left():
            lines.add(log[-1].name, b"", left)
    yield from lines.take()


class _Taker:
    """Takes events in as a worker of an agent does."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tree = BufferTree(plan.schema)
        self.jobs = plan.definition.key

    def insert(self, events: pl.DataFrame) -> None:
        self.tree.insert(self.plan.reduce(events))

    def note_gap(self, after_ms: int | None, before_ms: int) -> None:
        """There are no labels here; the outcome says how many events are left out."""


def parse_columns(text: str) -> dict[str, SqlType]:
    """Read column types as Spark writes them: `price DOUBLE, product STRING`.

    Raises:
        JobError: a part is not NAME TYPE.
    """
    columns = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, kind = part.partition(" ")
        try:
            columns[name] = SqlType.parse(kind)
        except ValueError as error:
            raise JobError(f"column {part!r}: {error}; write 'price DOUBLE, product STRING'") from None
    return columns


def _types(
    definition: Definition, parser: Format, given: Mapping[str, SqlType], files: Sequence[Input]
) -> dict[str, SqlType]:
    """Find the type of every column the query reads: given, declared by the job, fixed by the format, or inferred."""
    if definition.joined is not None:
        raise JobError("a job over other jobs has no lines of its own: publish it beside them")
    known = {**(parser.columns or {}), **definition.types, **given}
    read = columns_read(definition.query)
    lowered = {name.lower() for name in known}
    missing = [name for name in read if name.lower() not in lowered]
    fields: Sequence[str] = list(known)
    if missing and parser.columns is None:
        inferred = infer(parser, _sample(files), missing)
        known, fields = {**inferred.columns, **known}, sorted({*inferred.fields, *known})
    lowered = {name.lower() for name in known}
    for name in missing:
        if name.lower() not in lowered:
            if parser.columns is None and not fields:
                raise JobError(f"{NO_OBJECTS} --format, such as combined")
            message = f"the lines have no column {name!r}" + did_you_mean(nearest(name, fields))
            hint = "or declare its type with --columns or under [columns]"
            if isinstance(parser, JsonLines) and parser.columns is not None:
                hint = (
                    f"these are the columns of {parser.name}; `--format json --time {parser.time}` has the lines' own"
                )
            raise refused(read[name], message, hint)
    return known


def _rows(plan: Plan, paos: pl.DataFrame) -> tuple[pl.DataFrame, list[tuple[str, Overflows]]]:
    """Evaluate the job over all PAOs: once, or for every window that has some; and what of that cannot be said."""
    if plan.window is None:
        rows, overflows = plan.told(plan.schema.merge_window([paos]), None)
        return rows, [("", overflows)] if overflows.count else []
    size_ms = plan.window.size_ms
    ordered = paos.sort(INTERVAL)
    none = plan.finish(plan.grouped.empty().drop(INTERVAL), (0, size_ms)).head(0)
    results, last, last_end_ms = [_with_bounds(none, 0, 0)], none, None
    found: list[tuple[str, Overflows]] = []
    for end_ms in _window_ends(plan, ordered):
        start_ms = end_ms - size_ms
        first, until = (ordered[INTERVAL].search_sorted(at_ms // plan.interval_ms) for at_ms in (start_ms, end_ms))
        merged = plan.schema.merge_window([ordered.slice(first, until - first)])
        if plan.iterating is not None:
            # The window before has no rows if it has no events.
            merged = plan.iterating.regroup(merged, last if last_end_ms == end_ms - plan.window.slide_ms else none)
        last, overflows = plan.told(merged, (start_ms, end_ms))
        last_end_ms = end_ms
        if overflows.count:
            found.append((f"{instant(start_ms)}/{instant(end_ms)}", overflows))
        results.append(_with_bounds(last, start_ms, end_ms))
        if plan.iterating is not None:
            check_size(last)
    return pl.concat(results), found


def _with_bounds(rows: pl.DataFrame, start_ms: int, end_ms: int) -> pl.DataFrame:
    bounds = zip(WINDOW_COLUMNS, (start_ms, end_ms), strict=True)
    return rows.select(
        *(pl.lit(at_ms, pl.Int64).cast(pl.Datetime("ms")).alias(name) for name, at_ms in bounds), pl.all()
    )


def _window_ends(plan: Plan, ordered: pl.DataFrame) -> list[int]:
    """List the ends of all windows that hold one of the intervals, ascending, however far apart these are."""
    assert plan.window is not None
    size_ms, slide_ms = plan.window
    at_ms = ordered[INTERVAL].to_numpy() * plan.interval_ms
    # Of the intervals that begin in a slide, the first is in the most windows.
    newest_starts, firsts = np.unique(at_ms // slide_ms * slide_ms, return_index=True)
    starts = [newest_starts]
    for _ in range(slide_ms, size_ms + slide_ms, slide_ms):
        starts.append(starts[-1] - slide_ms)
    ends = np.concatenate([each[each + size_ms > at_ms[firsts]] for each in starts]) + size_ms
    return list(map(int, np.unique(ends)))


def _sample(files: Sequence[Input]) -> bytes:
    """Return the first lines of the first file that has any, which show the types of columns that nobody declared."""
    return next(filter(None, (file.front() for file in files)), b"")
