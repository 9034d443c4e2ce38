"""What a member of a job's root group makes of a version that was decided."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from msgspec.structs import replace

from elf.agents.group.copies import Copies, Copy
from elf.agents.group.leadership import Leadership
from elf.agents.jobs.versions import Version, compile_versions
from elf.agents.master.commands import Rename, Turn, encode_command
from elf.agents.master.master import Master
from elf.agents.store.database import Database
from elf.agents.store.panes import Panes
from elf.agents.wire.records import JobRecord
from elf.overlay.group.messages import Kind, Place
from elf.overlay.ids import Contact
from tests.agents.plans import plan_of
from tests.overlay.cluster import wait_until

HERE = Contact.at("127.0.0.1", 9)
DEFINITION = replace(plan_of().definition, columns={"product": "STRING", "cents": "BIGINT"})
JOB = JobRecord(definition=DEFINITION, master_host="127.0.0.1", master_port=9, published_ms=7, instance="i", stamp_ms=7)
PATIENT = replace(DEFINITION, version=2, options=replace(DEFINITION.options, leap_after_ms=60_000))


def others(tell: Any) -> Any:
    """All others whom the job concerns, of which each says that its time is over once it is."""
    return MagicMock(tell=tell, is_over=AsyncMock(return_value=True))


@pytest.fixture
def copies(tmp_path: Any) -> Any:
    database = Database(tmp_path / "state.db")
    store = Panes(database)
    store.create(DEFINITION.app_id, JOB.encode(), b"")
    kept = Copies("w1", MagicMock(contact=HERE), store, MagicMock(), MagicMock(), lambda job: None)
    copy = Copy(JOB, Master(compile_versions(JOB.history), store, None))
    kept._copies[DEFINITION.app_id], kept.apps[JOB.tree] = copy, DEFINITION.app_id
    yield kept
    database.close()


@pytest.mark.parametrize(
    "version",
    [
        Version(number=2, definition=replace(PATIENT, name="other"), since=5, begins=5, pao_kind=2),
        Version(number=2, definition=replace(PATIENT, version=3), since=5, begins=5, pao_kind=2),
        Version(number=2, definition=PATIENT, since=5, begins=5, pao_kind=7),
        Version(number=7, definition=replace(PATIENT, version=7), since=5, begins=5, pao_kind=7),
    ],
    ids=["another job", "other number within", "unknown kind", "not the next"],
)
def test_a_version_that_is_not_the_next_of_this_job_counts_nothing_and_stops_nothing(
    copies: Copies, version: Version
) -> None:
    async def play() -> None:
        await copies.on_apply(JOB.tree, Place(1, 8), Kind.COMMAND, encode_command(Turn(version)))
        sound = Version(number=2, definition=PATIENT, since=5, begins=5)
        await copies.on_apply(JOB.tree, Place(1, 9), Kind.COMMAND, encode_command(Turn(sound)))

    asyncio.run(play())
    copy = copies.get(DEFINITION.app_id)
    assert copy is not None and copy.master.state.applied == Place(1, 9)
    assert [(each.number, each.since) for each in copy.job.history] == [(1, copy.job.history[0].since), (2, 5)]
    assert copy.master.versions.newest.plan.leap_after_ms == 60_000


def test_a_master_without_the_source_waits_for_others_as_its_newest_version_says(copies: Copies) -> None:
    node = MagicMock(contact=HERE)

    async def spread(job: JobRecord) -> bool:
        return True

    async def play() -> None:
        leadership = Leadership(node, copies, MagicMock(), MagicMock(), others(spread), lambda: 8)
        leadership.rooted[DEFINITION.app_id] = asyncio.Event()
        copies.changed = leadership.on_changed
        sound = Version(number=2, definition=PATIENT, since=5, begins=5)
        await copies.on_apply(JOB.tree, Place(1, 8), Kind.COMMAND, encode_command(Turn(sound)))
        await leadership.stop()

    asyncio.run(play())
    assert [call.kwargs["leap_after_ms"] for call in node.join_tree.call_args_list] == [60_000]


def test_while_somebody_cannot_be_told_only_the_newest_version_is_tried(copies: Copies) -> None:
    trying: list[int] = []
    away = True

    async def tell(job: JobRecord) -> None:
        trying.append(job.definition.version)
        try:
            await asyncio.wait_for(asyncio.Event().wait(), None if away else 0.001)
        except TimeoutError:
            return
        finally:
            trying.remove(job.definition.version)

    async def play() -> None:
        nonlocal away
        leadership = Leadership(MagicMock(contact=HERE), copies, MagicMock(), MagicMock(), others(tell), lambda: 8)
        leadership.rooted[DEFINITION.app_id] = asyncio.Event()
        copies.changed = leadership.on_changed
        copy = copies.get(DEFINITION.app_id)
        assert copy is not None
        copy.leads = True
        for number in range(2, 7):
            away = number < 6
            version = Version(number=number, definition=replace(PATIENT, version=number), since=5, begins=5)
            if not away:
                waiting = asyncio.create_task(leadership.told(DEFINITION.app_id))
                await asyncio.sleep(0)
            await copies.on_apply(JOB.tree, Place(1, 8 + number), Kind.COMMAND, encode_command(Turn(version)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert trying == [number]
        # Who waits for an earlier version is told once the newest one is.
        await waiting
        assert trying == []
        await leadership.stop()

    asyncio.run(play())


STOP = Version(number=2, definition=replace(DEFINITION, version=2), what="stop", since=5, ends_ms=9)
RESUME = Version(number=3, definition=replace(DEFINITION, version=3), what="resume", since=7)


@pytest.mark.parametrize("resumed", [False, True])
def test_a_stop_that_was_undone_in_time_is_not_the_end(copies: Copies, resumed: bool) -> None:
    """The end is proposed when its time is over, and a resume may be decided before it."""

    async def play() -> JobRecord:
        copy = copies.get(DEFINITION.app_id)
        assert copy is not None
        await copies.on_apply(JOB.tree, Place(1, 8), Kind.COMMAND, encode_command(Turn(STOP)))
        end = Rename(copy.job.tombstone(100_000), version=2)
        if resumed:
            await copies.on_apply(JOB.tree, Place(1, 9), Kind.COMMAND, encode_command(Turn(RESUME)))
        await copies.on_apply(JOB.tree, Place(1, 10), Kind.COMMAND, encode_command(end))
        late = Rename(replace(copy.job, master_port=10, stopped=False, stamp_ms=copy.job.stamp_ms + 1))
        await copies.on_apply(JOB.tree, Place(1, 11), Kind.COMMAND, encode_command(late))
        assert copy.master.state.applied == Place(1, 11)
        return copy.job

    job = asyncio.run(play())
    assert job.stopped != resumed and not job.rests
    assert job.master_port == 10, "another master does not make an end undone"


def test_the_leader_ends_a_stopped_job_when_its_time_is_over(copies: Copies) -> None:
    async def spread(job: JobRecord) -> bool:
        told.append(job)
        return True

    async def propose(app: bytes, command: Any) -> None:
        await copies.on_apply(JOB.tree, Place(1, 20 + len(proposed)), Kind.COMMAND, encode_command(command))
        proposed.append(type(command).__name__)

    async def play() -> None:
        copy = copies.get(DEFINITION.app_id)
        assert copy is not None
        copies.propose = propose  # type: ignore[method-assign]
        await copies.on_apply(JOB.tree, Place(1, 8), Kind.COMMAND, encode_command(Turn(STOP)))
        copy.leads, told[:] = True, []
        leadership = Leadership(
            MagicMock(contact=HERE), copies, MagicMock(), MagicMock(), others(spread), lambda: now_ms
        )
        leadership.rooted[DEFINITION.app_id], copies.changed = asyncio.Event(), leadership.on_changed
        task = asyncio.create_task(leadership._end_in_time(DEFINITION.app_id, copy))
        await asyncio.sleep(0)
        assert not proposed and not told, "its time is not over"
        nonlocal_now()
        await task
        await wait_until(lambda: len(proposed) == 2)
        await leadership.stop()

    def nonlocal_now() -> None:
        nonlocal now_ms
        now_ms = 9

    proposed: list[str] = []
    told: list[JobRecord] = []
    now_ms = 8
    asyncio.run(play())
    assert proposed == ["Rename", "End"] and told[-1].stopped
