"""Whether there is more to read: after a large chunk, and while other logs wait."""

from elf.agents.intake.backlog import Backlog


def test_after_a_large_chunk_there_is_more() -> None:
    backlog = Backlog(chunk_bytes=100)
    backlog.note("a", 25, set())
    assert backlog.is_large and backlog.is_left
    backlog.note("a", 24, {"a"})
    assert not backlog.is_large and not backlog.is_left, "the log waited when it was looked at, and was read since"


def test_other_logs_that_wait_are_more_until_they_were_read() -> None:
    backlog = Backlog(chunk_bytes=100)
    backlog.note("a", 1, {"a", "b"})
    assert backlog.is_left and not backlog.is_large
    backlog.note("b", 1, {"a", "b"})
    assert not backlog.is_left
    backlog.note("a", 1, {"a", "b"})
    assert backlog.is_left, "that both were read is forgotten once nothing was left"
    backlog.end()
    backlog.note("b", 1, {"a", "b"})
    assert backlog.is_left
