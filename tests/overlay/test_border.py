"""Verdicts on their way to the runtime: in order, each answered, and joined while they wait."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.border import Border
from elf.overlay.contract import NEVER, Commit, ControlEntry, Mark, Record, RollupState, Verdict
from elf.overlay.effects import Committed, Input, Merged, Notified, Refused
from elf.overlay.errors import OvertakenError
from tests.overlay.cluster import wait_until

APP = b"j" * 20


class SlowDisk:
    """A runtime that notes verdicts, and has each durable only when told so."""

    def __init__(self) -> None:
        self.told: list[Verdict] = []
        self.turns = asyncio.Semaphore(0)

    async def on_verdict(self, app: bytes, verdict: Verdict) -> None:
        self.told.append(verdict)
        await self.turns.acquire()

    async def on_route(self, key: bytes, body: bytes, path: Sequence[str]) -> None: ...

    def admits(self, app: bytes, record: Record) -> bool:
        return True

    def on_record(self, app: bytes, record: Record) -> None: ...

    async def on_commit(self, app: bytes, commit: Commit) -> None: ...

    async def on_control(self, app: bytes, entry: ControlEntry) -> None: ...

    def merge(self, app: bytes, payloads: Sequence[bytes]) -> bytes:
        return b""


async def test_verdicts_that_wait_for_a_slow_disk_are_made_durable_together() -> None:
    disk, answers = SlowDisk(), list[Input]()
    border = Border(disk, lambda app, answer: answers.append(answer), {APP})
    for through in range(1, 1_001):
        border.notify(APP, Verdict(through - 1, through, missing=not 600 <= through < 800))
        await asyncio.sleep(0)
    for _ in range(4):
        disk.turns.release()
    await wait_until(lambda: Notified(1_000) in answers)
    runs = [Verdict(0, 1, True), Verdict(1, 599, True), Verdict(599, 799, False), Verdict(799, 1_000, True)]
    assert disk.told == runs
    assert answers == [Notified(run.through) for run in runs]
    border.notify(APP, Verdict(1_000, 1_001, True))
    disk.turns.release()
    await wait_until(lambda: Notified(1_001) in answers)
    await border.stop()


async def test_a_control_entry_that_the_runtime_leaves_to_another_root_is_refused_once() -> None:
    class Deposed(SlowDisk):
        async def on_control(self, app: bytes, entry: ControlEntry) -> None:
            raise OvertakenError("another agent leads")

    answers = list[Input]()
    border = Border(Deposed(), lambda app, answer: answers.append(answer), {APP})
    border.deliver(APP, ControlEntry(Mark(1, 1), b"x"))
    await wait_until(lambda: bool(answers))
    assert answers == [Refused(Mark(1, 1))]
    await border.stop()


async def test_what_is_no_exception_to_python_is_tried_again_and_named(caplog: pytest.LogCaptureFixture) -> None:
    """Panics of compiled code derive from BaseException only."""

    class Panic(BaseException):
        pass

    class Fragile(SlowDisk):
        failed = False

        async def on_commit(self, app: bytes, commit: Commit) -> None:
            if not self.failed:
                self.failed = True
                raise Panic("index out of bounds")

        def merge(self, app: bytes, payloads: Sequence[bytes]) -> bytes:
            if b"bad" in payloads:
                raise Panic("not in these bytes")
            return b"+".join(payloads)

    answers = list[Input]()
    border = Border(Fragile(), lambda app, answer: answers.append(answer), {APP})
    border.merge(APP, 7, [b"a", b"bad", b"b"])
    border.persist(APP, Commit(NEVER, 5, b"", (), (), RollupState()))
    await wait_until(lambda: len(answers) == 2)
    assert sorted(map(repr, answers)) == [repr(Committed(5)), repr(Merged(7, b"a+b", (1,)))]
    assert "index out of bounds" in caplog.text and "not in these bytes" in caplog.text
    await border.stop()


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), min_size=2, max_size=2), st.integers(0, 1))
def test_joined_verdicts_say_the_same_of_every_interval(fates: list[tuple[int, bool, bool]], gap: int) -> None:
    (length, missing, named), (later_length, *later_fate) = fates
    first = Verdict(10, 10 + length, missing, named)
    later = Verdict(first.through + gap, first.through + gap + later_length, *later_fate)
    joined = first.joined(later)
    if gap or [missing, named] != later_fate:
        assert joined is None
    else:
        assert joined == Verdict(10, later.through, missing, named)
