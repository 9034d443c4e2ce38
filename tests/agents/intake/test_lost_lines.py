"""Since when lines may be lost: never later than they were written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.intake.lost_lines import FILES_MAX, LastTimes

ONE, OTHER = (1, 1), (1, 2)


def test_a_file_is_behind_its_own_log_and_no_other() -> None:
    times = LastTimes({}, None)
    for log, file, newest_ms in (("a", ONE, 100), ("b", OTHER, 900)):
        times.reading(log, file)
        times.note(log, newest_ms)
    assert times.since_ms("a", ONE) == 100 and times.since_ms("b", OTHER) == 900


def test_what_was_read_of_newer_files_does_not_make_an_older_one_newer() -> None:
    times = LastTimes({}, None)
    times.reading("a", ONE)
    times.note("a", 100)
    times.reading("a", OTHER)
    times.note("a", 5_000)
    assert times.since_ms("a", ONE) == 100
    times.reading("a", ONE)
    times.reading("a", OTHER)
    times.note("a", 9_000)
    assert times.since_ms("a", ONE) == 5_000, "both were read in one go: its lines may be the older ones"


def test_a_file_that_was_not_read_since_a_restart_is_where_its_log_was_then() -> None:
    times = LastTimes({"a": 100}, 900)
    times.reading("a", OTHER)
    times.note("a", 5_000)
    assert times.since_ms("a", ONE) == 100
    assert times.since_ms("new", ONE) == 900, "written by an earlier version: of all logs the newest is known"
    assert LastTimes({}, None).since_ms("a", ONE) is None


def test_the_logs_that_were_read_last_are_remembered() -> None:
    times = LastTimes({}, None)
    for number in range(FILES_MAX):
        times.note(f"{number}.log", number)
    times.note("0.log", 5)
    times.note("new.log", 7)
    assert len(times.logs) == FILES_MAX and times.logs["0.log"] == 5 and "1.log" not in times.logs


def test_the_files_that_were_read_last_are_remembered() -> None:
    times = LastTimes({"a": 7}, 7)
    for number in range(FILES_MAX + 1):
        times.reading("a", (0, number))
        times.note("a", 1_000 + number)
    assert times.since_ms("a", (0, FILES_MAX)) == 1_000 + FILES_MAX
    assert times.since_ms("a", (0, 0)) == 7


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 99))))
def test_a_file_is_where_its_log_was_when_it_was_read_last(steps: list[tuple[str, int, int]]) -> None:
    times, logs, files = LastTimes({}, None), dict[str, int](), dict[tuple[int, int], tuple[str, int]]()
    for log, number, time_ms in steps:
        file = (ord(log), number)
        times.reading(log, file)
        times.note(log, time_ms)
        logs[log] = max(time_ms, logs.get(log, 0))
        files[file] = log, logs[log]
    assert all(times.since_ms(log, file) == time_ms for file, (log, time_ms) in files.items())
    assert times.logs == logs
