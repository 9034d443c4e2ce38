"""How long a job's intervals are, how they are numbered, and which options its query can keep."""

from __future__ import annotations

import math
from typing import NamedTuple

from elf.agents.errors import JobSpecError
from elf.agents.jobs.definition import Definition, Options
from elf.agents.language.dialect import refused
from elf.agents.language.query import Query, Window, outline_of, parse_query

#: The interval of a job without a window: how often its result moves.
INTERVAL_MS_DEFAULT = 10_000
#: How long closed windows can be asked for when the job does not say: one day, and at least two windows.
RETAIN_MS = 86_400_000
#: Of a job that reads its last result: so many slides more than a window, for after a restart its results are computed
#: one after the other from the oldest on; and the most that a job may ask for.
SLIDES_RETAINED, SLIDES_RETAINED_MAX = 64, 512
#: Slides in a window of such a job: as many results follow from each that is lost.
SLIDES_MAX = 512
#: What a job may cost its agents while nothing comes, and its master while it is followed: 5 % of a core, as measured.
INTERVAL_MS_MIN = 100
#: Each tree has its own snapshots and commits.
SEALS_PER_S_MAX = 30


class Numbering(NamedTuple):
    """Intervals of `length_ms`, each the one from `length_ms * (number - shift)` on, in ms since 1970.

    A job's numbers go on where a version makes its intervals longer or shorter (`followed_by`), so that no number
    stands for two of them.
    """

    length_ms: int
    shift: int = 0

    def number(self, at_ms: int) -> int:
        """Return the interval that an event time lies in."""
        return at_ms // self.length_ms + self.shift

    def start_ms(self, interval: int) -> int:
        """Return the event time that an interval begins at."""
        return (interval - self.shift) * self.length_ms

    def followed_by(self, length_ms: int, interval: int) -> tuple[int, int]:
        """Return where intervals of another length may take over, at `interval` or after it, and their shift.

        Intervals of both lengths begin there, so that none is cut in two.
        """
        if length_ms == self.length_ms:
            return interval, self.shift
        common_ms = math.lcm(length_ms, self.length_ms)
        at_ms = -(-self.start_ms(interval) // common_ms) * common_ms
        since = self.number(at_ms)
        return since, since - at_ms // length_ms


def check_options(definition: Definition, window: Window | None) -> None:
    """Refuse options that no result of this query could keep."""
    options = definition.options
    if window is None and options.straggler == "void":
        raise JobSpecError(
            'straggler = "void" drops intervals for everybody, which a result since the job\'s beginning cannot do',
            hint="""group by window(ts, '60 seconds'), or choose "late", "drop" or "mirror\"""",
            setting="options.straggler",
        )
    if window is not None and options.retain_ms is not None and options.retain_ms < window.size_ms:
        raise JobSpecError(
            f"the option retain ({options.retain_ms} ms) is shorter than the window, of which it would lose the front",
            hint=f"use {window.size_ms} ms or more, or leave it out",
            setting="options.retain",
        )


def check_beside(definition: Definition, query: Query | None = None) -> None:
    """Refuse options beside which the query cannot run, whatever types its columns have.

    Args:
        definition: the job.
        query: its query; parsed unless given.

    Raises:
        JobSpecError: there is one, or the query is none.
    """
    query = query or parse_query(definition.query)
    check_options(definition, query.window)
    if query.last is not None:
        check_iterating(query, definition.options)
    interval_ms_of(definition, query.window)


def pace_of(definition: Definition) -> tuple[int, int]:
    """Return how long a job's intervals are, and the least that they may be, in ms; JobSpecError of no query."""
    window = outline_of(definition.query).window
    least_ms = max(INTERVAL_MS_MIN, -(-definition.options.trees * 1000 // SEALS_PER_S_MAX))
    return interval_ms_of(definition, window), least_ms


def check_pace(definition: Definition) -> None:
    """Refuse a job to publish whose intervals are so short that it would cost too much while nothing comes.

    Slides and early results are no more frequent than intervals. Jobs that run are left alone.

    Raises:
        JobSpecError: they are; or the query is none.
    """
    options, (interval_ms, least_ms) = definition.options, pace_of(definition)
    if interval_ms >= least_ms:
        return
    setting, why = None, f"which its window asks for (size, slide{' and emit_every' if options.emit_every_ms else ''})"
    if options.interval_ms is not None:
        setting, why = "options.interval", "as the option interval says"
    elif options.emit_every_ms is not None:
        setting, why = "options.emit_every", "as the option emit_every asks for"
    trees = f" with {options.trees} trees" if options.trees > 1 else ""
    raise JobSpecError(
        f"the job has intervals of {interval_ms} ms{trees}, {why}; the shortest are {least_ms} ms: they cost agents "
        "even while nothing comes",
        hint=f"use {least_ms} ms or more",
        setting=setting,
    )


def check_iterating(query: Query, options: Options) -> None:
    """Refuse what a job that reads its last result cannot do, for each of its results needs the one before."""
    window, last = query.window, query.last
    assert window is not None and last is not None
    size_ms, slide_ms = window
    most_ms = size_ms + SLIDES_RETAINED_MAX * slide_ms
    if options.trees > 1:
        raise refused(last.node, "a job that reads its last result has one tree: leave the option trees out")
    if options.availability != "exact":
        raise refused(last.node, 'a job that reads its last result is availability = "exact": two sides would drift')
    if options.emit_every_ms is not None:
        raise refused(last.node, "a job that reads its last result has no emit_every: open windows have no result")
    if size_ms > SLIDES_MAX * slide_ms:
        hint = "a shorter window, or a longer slide"
        raise refused(last.node, f"the window has {size_ms // slide_ms} slides, over the limit of {SLIDES_MAX}", hint)
    if options.retain_ms is not None and options.retain_ms > most_ms:
        raise JobSpecError(
            f"the option retain ({options.retain_ms} ms) is too long for a job that reads its last result",
            hint=f"use {most_ms} ms or less, or leave it out",
            setting="options.retain",
        )


def retain_ms_of(options: Options, window: Window, iterates: bool) -> int:
    """Return how long before the newest interval with rows a job with a window retains its panes."""
    if options.retain_ms is not None:
        return options.retain_ms
    size_ms, slide_ms = window
    return size_ms + SLIDES_RETAINED * slide_ms if iterates else max(RETAIN_MS, 2 * size_ms)


def interval_ms_of(definition: Definition, window: Window | None) -> int:
    """Return the length of a job's intervals; JobSpecError where its options ask for one that does not divide."""
    chosen, every = definition.options.interval_ms, definition.options.emit_every_ms
    if window is None:
        if chosen is not None and every is not None and every % chosen:
            raise _does_not_divide(chosen, "emit_every", every)
        return chosen or every or INTERVAL_MS_DEFAULT
    natural = math.gcd(window.size_ms, window.slide_ms)
    if every is not None:
        if window.slide_ms % every or every == window.slide_ms:
            raise JobSpecError(
                f"the option emit_every ({every} ms) has to divide {window.slide_ms} ms, after which a window closes",
                hint=f"use {window.slide_ms // 2} ms, or another divisor, or leave it out",
                setting="options.emit_every",
            )
        natural = math.gcd(natural, every)
    if chosen is None:
        return natural
    if natural % chosen:
        what = "the window's size and slide" + ("" if every is None else " and emit_every")
        raise _does_not_divide(chosen, what, natural)
    return chosen


def numbering_of(definition: Definition) -> Numbering:
    """Return how a job's intervals are numbered.

    Raises:
        JobSpecError: its query is none, or its options ask for intervals that do not divide its window.
    """
    return Numbering(interval_ms_of(definition, outline_of(definition.query).window), definition.shift)


def _does_not_divide(interval_ms: int, what: str, natural_ms: int) -> JobSpecError:
    return JobSpecError(
        f"the option interval ({interval_ms} ms) does not divide {what}",
        hint=f"use a divisor of {natural_ms} ms",
        setting="options.interval",
    )
