"""What has changed in archives: whatever happens to files, each change is seen, and a merge is none."""

from __future__ import annotations

import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.archive.layout import ArchivedFile, FileEntry
from elf.agents.archive.removed import Span
from elf.offline.pipeline.growth import Taken, compare_files

FOLDER = "source=clicks/date=2026-01-01/hour=00"


def file_of(name: str, first_ms: int, rows: int = 1, replaces: tuple[str, ...] = (), agent: str = "a") -> ArchivedFile:
    entry = FileEntry(
        f"{FOLDER}/{name}", "clicks", agent, 0, rows, 1, f"{name} {rows}", first_ms, first_ms + 9, {}, replaces
    )
    return ArchivedFile(Path(entry.path), entry)


def spans_of(file: ArchivedFile) -> list[Span]:
    return [(file.entry.first_ms, file.entry.last_ms + 1)]


def test_an_agent_without_files_is_named() -> None:
    before = compare_files({}, [file_of("x", 0), file_of("y", 0, agent="b")], spans_of)
    assert before.files == 2 and before.vanished == []
    assert compare_files(before.taken, [file_of("x", 0)], spans_of).vanished == ["b"]


def test_a_file_written_anew_under_its_name_touches_what_both_held() -> None:
    before = compare_files({}, [file_of("x", 0, rows=1)], spans_of)
    after = compare_files(before.taken, [file_of("x", 50, rows=2)], spans_of)
    assert sorted(after.spans) == [(0, 10), (50, 60)]


def test_what_was_merged_of_a_file_that_was_never_seen_touches_its_times() -> None:
    before = compare_files({}, [file_of("x", 0)], spans_of)
    after = compare_files(before.taken, [file_of("m", 0, rows=2, replaces=("x", "y"))], spans_of)
    assert after.files == 1 and (0, 10) in after.spans


@given(st.lists(st.tuples(st.sampled_from(["add", "look", "merge", "drop"]), st.integers(0, 50)), max_size=40))
def test_every_change_between_two_looks_is_seen(steps: list[tuple[str, int]]) -> None:
    names = (f"f{number:03d}" for number in itertools.count())
    files: dict[str, ArchivedFile] = {}
    #: The times of events that are in the files by name, as a reader counts them: whatever they were merged of.
    held: dict[str, list[int]] = {}
    known: dict[str, Taken] = {}
    known_times: list[int] = []
    for what, at in [*steps, ("look", 0)]:
        if what == "add":
            name = next(names)
            files[name], held[name] = file_of(name, at), [at]
        elif what == "merge" and len(files) > 1:
            parts = sorted(files)[: 2 + at % 3]
            name, times = next(names), [time for part in parts for time in held.pop(part)]
            spread = ArchivedFile(Path(), file_of(name, min(times), len(times), tuple(parts)).entry)
            files = {each: file for each, file in files.items() if each not in parts} | {name: spread}
            held[name] = times
        elif what == "drop" and files:
            name = sorted(files)[at % len(files)]
            del files[name], held[name]
        elif what == "look":

            def times_of(file: ArchivedFile) -> list[Span]:
                return [(time, time + 1) for time in held[file.path.name or file.entry.path.rpartition("/")[2]]]

            growth = compare_files(known, list(files.values()), times_of)
            times = sorted(time for each in held.values() for time in each)
            changed = {time for time in {*times, *known_times} if times.count(time) != known_times.count(time)}
            touched = {time for start, end in growth.spans for time in range(start, end)}
            assert changed <= touched
            assert not compare_files(growth.taken, list(files.values()), times_of).spans
            known, known_times = growth.taken, times


@given(st.lists(st.integers(0, 50), min_size=1, max_size=10))
def test_a_merge_of_known_files_touches_nothing(times: list[int]) -> None:
    files = [file_of(f"f{number}", at) for number, at in enumerate(times)]
    before = compare_files({}, files, spans_of)
    merged = file_of("m", min(times), len(files), tuple(file.path.name for file in files))
    after = compare_files(before.taken, [merged], spans_of)
    assert (after.spans, after.files) == ([], 0)
    again = file_of("n", min(times), len(files), ("m",))
    assert not compare_files(after.taken, [again], spans_of).spans
    # And once it goes, all its parts' times are touched.
    gone = compare_files(after.taken, [], spans_of)
    assert all(any(start <= at < end for start, end in gone.spans) for at in times)
