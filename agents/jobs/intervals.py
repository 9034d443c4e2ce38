"""How long a job's intervals are, and which options its query can keep."""

from __future__ import annotations

import math

from agents.errors import JobSpecError
from agents.jobs.definition import Definition
from agents.jobs.query import Window

#: The interval of a job without a window: how often its result moves.
INTERVAL_MS_DEFAULT = 10_000


def check_options(definition: Definition, window: Window | None) -> None:
    """Refuse options that no result of this query could keep."""
    options = definition.options
    if window is None and options.straggler == "void":
        raise JobSpecError(
            'straggler = "void" drops intervals for everybody, which a result since the job\'s beginning cannot do',
            hint="""group by window(ts, '60 seconds'), or choose "late", "drop" or "mirror\"""",
        )
    if window is not None and options.retain_ms is not None and options.retain_ms < window.size_ms:
        raise JobSpecError(
            f"the option retain ({options.retain_ms} ms) is shorter than the window, of which it would lose the front",
            hint=f"use {window.size_ms} ms or more, or leave it out",
        )


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
            )
        natural = math.gcd(natural, every)
    if chosen is None:
        return natural
    if natural % chosen:
        what = "the window's size and slide" + ("" if every is None else " and emit_every")
        raise _does_not_divide(chosen, what, natural)
    return chosen


def _does_not_divide(interval_ms: int, what: str, natural_ms: int) -> JobSpecError:
    return JobSpecError(
        f"the option interval ({interval_ms} ms) does not divide {what}", hint=f"use a divisor of {natural_ms} ms"
    )
