"""How short a job's intervals may be when it is published."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.errors import JobSpecError
from elf.agents.jobs.definition import Definition, Options
from elf.agents.jobs.intervals import INTERVAL_MS_MIN, SEALS_PER_S_MAX, check_pace, numbering_of

JOB = Definition(name="j", creator="c", source="ev", query="", columns={"k": "BIGINT"})


def job(group: str, **options: object) -> Definition:
    query = f"SELECT k, count(*) AS n FROM ev GROUP BY k{group}"
    return replace(JOB, query=query, options=Options(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "definition",
    [
        job(""),
        job(", window(ts, '100 milliseconds')"),
        job(", window(ts, '1 day', '100 milliseconds')"),
        job("", interval_ms=100, emit_every_ms=1_000),
        job(", window(ts, '10 seconds')", emit_every_ms=100),
        job(", window(ts, '1 second')", trees=30),
        job(", window(ts, '10 seconds')", trees=64),
    ],
    ids=lambda each: each.query[40:],
)
def test_ordinary_jobs_are_published(definition: Definition) -> None:
    check_pace(definition)


@pytest.mark.parametrize(
    ("definition", "said", "setting"),
    [
        (
            job(", window(ts, '50 milliseconds')"),
            r"intervals of 50 ms, which its window asks for \(size, slide\);",
            None,
        ),
        (job(", window(ts, '10 seconds', '1 milliseconds')"), "intervals of 1 ms, which its window", None),
        (job(", window(ts, '10 seconds', '9999 milliseconds')"), "intervals of 1 ms, which its window", None),
        (job("", interval_ms=99), "of 99 ms, as the option interval says; the shortest are 100 ms", "options.interval"),
        (job("", emit_every_ms=1), "of 1 ms, as the option emit_every asks for", "options.emit_every"),
        (
            job(", window(ts, '10 seconds')", emit_every_ms=10),
            "as the option emit_every asks for",
            "options.emit_every",
        ),
        (job(", window(ts, '1 second')", trees=64), "with 64 trees, .*; the shortest are 2134 ms", None),
        (job(", window(ts, '1 second')", trees=8, interval_ms=100), "the shortest are 267 ms", "options.interval"),
    ],
)
def test_what_would_cost_too_much_is_refused_with_the_bound(
    definition: Definition, said: str, setting: str | None
) -> None:
    with pytest.raises(JobSpecError, match=said) as caught:
        check_pace(definition)
    assert caught.value.setting == setting
    assert str(caught.value).endswith("ms or more)")


@given(
    trees=st.integers(1, 64),
    interval_ms=st.none() | st.integers(1, 5_000),
    size_ms=st.none() | st.integers(1, 20_000),
    slides=st.integers(1, 8),
    emits=st.none() | st.integers(1, 8),
)
def test_what_is_published_seals_no_more_often_than_is_said(
    trees: int, interval_ms: int | None, size_ms: int | None, slides: int, emits: int | None
) -> None:
    group = "" if size_ms is None else f", window(ts, '{size_ms * slides} milliseconds', '{size_ms} milliseconds')"
    definition = job(group, trees=trees, interval_ms=interval_ms, emit_every_ms=emits and (size_ms or 100) * emits)
    try:
        check_pace(definition)
    except JobSpecError:
        return
    length_ms = numbering_of(definition).length_ms
    assert length_ms >= INTERVAL_MS_MIN
    assert trees * 1000 / length_ms <= SEALS_PER_S_MAX
