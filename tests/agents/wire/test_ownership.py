"""Records of jobs are held to their creators' orders, whatever order they come in and whoever tells them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.errors import NotAdmittedError, NotCreatorError
from elf.agents.jobs.orders import Order, What, digest_of
from elf.agents.jobs.versions import Version
from elf.agents.language.own_functions import OwnFunction
from elf.agents.wire.catalogue import Catalogue, job_record
from elf.agents.wire.ownership import AHEAD_MS, EARLY_MS, check_own, check_successor, require_order
from elf.agents.wire.records import JobRecord
from elf.overlay.contract import NEVER, Record
from tests.agents.plans import plan_of

MINE, THEIRS = bytes(range(32)), bytes(range(1, 33))
DEFINITION = replace(plan_of().definition, columns={"product": "STRING", "cents": "BIGINT"})
KEY = DEFINITION.key
NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def order(what: What, made_ms: int, secret: bytes = MINE, **fields: object) -> Order:
    told = {"publication": "p1", "about": digest_of(DEFINITION), **fields}
    return Order(key="", what=what, job=KEY, made_ms=made_ms, **told).signed(secret)


def published(made_ms: int = NOW_MS, secret: bytes = MINE, instance: str = "p1") -> JobRecord:
    return JobRecord(
        definition=DEFINITION,
        master_host="127.0.0.1",
        master_port=4250,
        published_ms=made_ms,
        instance=instance,
        stamp_ms=made_ms,
        published=order("publish", made_ms, secret, publication=instance),
    )


def turned(job: JobRecord, what: What, by: Order | None, **fields: object) -> JobRecord:
    """Return a job with another version, as its master makes it."""
    number = job.definition.version + 1
    definition = replace(job.definition, version=number)
    if what == "stop":
        fields = {"ends_ms": NOW_MS + DAY_MS, **fields}
    version = Version(number=number, definition=definition, what=what, since=number, order=by, **fields)
    return replace(job, definition=definition, versions=(*job.history, version), stamp_ms=job.stamp_ms + 1)


JOB = published()
UNOWNED = replace(JOB, published=None)


def test_an_order_is_signed_over_all_of_it() -> None:
    given = order("stop", NOW_MS, keep_ms=7)
    assert given.is_signed
    changed = {"what": "end", "job": "a/b", "publication": "p2", "about": "", "keep_ms": 8, "made_ms": 1}
    for field, value in changed.items():
        assert not replace(given, **{field: value}).is_signed
    assert not replace(given, key=order("stop", NOW_MS, THEIRS).key).is_signed


def test_a_definition_is_told_by_what_its_creator_wrote() -> None:
    same = replace(DEFINITION, columns={}, part=1, version=9, shift=3)
    assert digest_of(same) == digest_of(DEFINITION)
    interval = replace(DEFINITION, options=replace(DEFINITION.options, interval_ms=1_000))
    assert digest_of(interval) == digest_of(DEFINITION)
    function = OwnFunction(name="f", args=("STRING",), returns="STRING", source="def f(x): return x")
    others = (
        replace(DEFINITION, query=DEFINITION.query + " "),
        replace(DEFINITION, options=replace(DEFINITION.options, trees=2)),
        replace(DEFINITION, name="other"),
        replace(DEFINITION, creator="other"),
        replace(DEFINITION, functions=(function,)),
    )
    assert len({digest_of(each) for each in (DEFINITION, *others)}) == 6


@pytest.mark.parametrize("what", ["pause", "reset", "resume", "stop", "rollback"])
def test_a_version_needs_an_order_of_its_kind_and_definition(what: What) -> None:
    check_own(turned(JOB, what, order(what, NOW_MS + 1)))
    wrong = (
        None,
        order(what, NOW_MS + 1, THEIRS),
        order("update", NOW_MS + 1),
        order(what, NOW_MS),
        order(what, NOW_MS + 1, about="0"),
        order(what, NOW_MS + 1, publication="p0"),
        replace(order(what, NOW_MS + 1), signature=""),
    )
    for by in wrong:
        with pytest.raises(NotCreatorError):
            check_own(turned(JOB, what, by))


def test_orders_of_versions_rise_and_keep_their_numbers() -> None:
    paused = turned(JOB, "pause", order("pause", NOW_MS + 2))
    check_successor(paused, turned(paused, "resume", order("resume", NOW_MS + 3)))
    with pytest.raises(NotCreatorError):
        check_own(turned(paused, "resume", order("resume", NOW_MS + 2)))
    assert paused.versions[-1].order is not None
    again = turned(turned(JOB, "reset", order("reset", NOW_MS + 1)), "pause", paused.versions[-1].order)
    with pytest.raises(NotCreatorError):
        check_successor(paused, again)
    with pytest.raises(NotCreatorError):  # back to before it
        check_successor(paused, replace(JOB, stamp_ms=paused.stamp_ms + 1))


def test_a_stop_by_agents_themselves_is_of_jobs_with_functions_and_changes_nothing_else() -> None:
    with pytest.raises(NotCreatorError):
        check_own(turned(JOB, "stop", None, why="it failed"))
    function = OwnFunction(name="f", args=("STRING",), returns="STRING", source="def f(x): return x")
    definition = replace(DEFINITION, functions=(function,))
    job = replace(JOB, definition=definition, published=order("publish", NOW_MS, about=digest_of(definition)))
    stopped = turned(job, "stop", None, why="it failed")
    check_own(stopped)
    with pytest.raises(NotCreatorError):  # it ends by nobody's word
        check_own(stopped.tombstone(NOW_MS))
    altered = replace(definition, query=DEFINITION.query + " ", version=2)
    version = replace(stopped.versions[-1], definition=altered)
    with pytest.raises(NotCreatorError):
        check_own(replace(stopped, definition=altered, versions=(stopped.versions[0], version)))


def test_a_job_ends_by_an_order_or_when_the_time_of_a_stop_is_over() -> None:
    check_successor(JOB, JOB.tombstone(NOW_MS, order("end", NOW_MS + 1)), NOW_MS)
    check_successor(JOB, JOB.tombstone(NOW_MS, order("publish", NOW_MS + 1, publication="p2")), NOW_MS)
    for by in (
        None,
        order("end", NOW_MS + 1, THEIRS),
        order("end", NOW_MS + 1, publication="p0"),
        JOB.published,
        order("publish", NOW_MS, publication="p2"),
        order("stop", NOW_MS + 1),
    ):
        with pytest.raises(NotCreatorError):
            check_successor(JOB, JOB.tombstone(NOW_MS, by), NOW_MS)
    over = turned(JOB, "stop", order("stop", NOW_MS + 1, keep_ms=DAY_MS)).tombstone(NOW_MS)
    check_successor(JOB, over, NOW_MS + DAY_MS - EARLY_MS + 1)
    check_successor(JOB, over)  # what was decided is decided by all alike
    with pytest.raises(NotCreatorError):
        check_successor(JOB, over, NOW_MS + DAY_MS - EARLY_MS)


def test_another_publication_is_its_creators_until_the_job_is_over() -> None:
    check_successor(JOB, published(NOW_MS + 1, instance="p2"))
    check_successor(UNOWNED, published(NOW_MS + 1, THEIRS, "p2"))
    over = JOB.tombstone(NOW_MS, order("end", NOW_MS + 1))
    for job in (published(NOW_MS + 1, THEIRS, "p2"), replace(UNOWNED, instance="p2")):
        check_successor(over, job)
        with pytest.raises(NotCreatorError):
            check_successor(JOB, job)
    for played_again in (published(NOW_MS - 1, instance="p0"), replace(JOB, stamp_ms=over.stamp_ms + 1)):
        with pytest.raises(NotCreatorError):
            check_successor(over, played_again)


def test_an_order_is_required_in_one_sentence() -> None:
    assert require_order(UNOWNED, None, "stop") is None
    good = order("stop", NOW_MS + 1)
    assert require_order(JOB, good, "stop") is good
    for wrong, said in (
        (None, "belongs to the creator's key"),
        (order("stop", NOW_MS + 1, THEIRS), "and this was asked with"),
        (replace(good, signature=""), "none that fits its signature"),
        (order("pause", NOW_MS + 1), "the order is to pause"),
        (order("stop", NOW_MS), "not later than the last one"),
    ):
        with pytest.raises(NotCreatorError, match=said):
            require_order(JOB, wrong, "stop")


@pytest.mark.parametrize("job", [JOB, UNOWNED])
def test_stamps_are_held_to_the_clock(job: JobRecord) -> None:
    catalogue = Catalogue()
    ahead = replace(job, stamp_ms=NOW_MS + AHEAD_MS + 1)
    record = job_record(ahead)
    with pytest.raises(NotAdmittedError, match="a day ahead"):
        catalogue.admit(b"", record, NOW_MS)
    catalogue.admit(b"", record, NOW_MS + 1)  # held back, not refused for ever
    with pytest.raises(NotAdmittedError, match="otherwise"):
        catalogue.admit(b"", replace(record, version=NOW_MS), NOW_MS)
    with pytest.raises(NotAdmittedError, match="another job"):
        catalogue.admit(b"", replace(record, key="job/shop/other"), NOW_MS + 1)
    with pytest.raises(NotAdmittedError):
        catalogue.admit(b"", Record("member/a", 1 << 62, b""), NOW_MS)


# ---- under hostile stamps, in any order

Forge = Callable[[JobRecord, int], JobRecord]
FORGERIES: tuple[Forge, ...] = (
    lambda job, stamp_ms: replace(job.tombstone(0), stamp_ms=stamp_ms),
    lambda job, stamp_ms: replace(job.tombstone(0, order("end", NOW_MS + 1, THEIRS)), stamp_ms=stamp_ms),
    lambda job, stamp_ms: replace(job, published=None, instance="p9", stamp_ms=stamp_ms),
    lambda job, stamp_ms: replace(published(NOW_MS + 5, THEIRS, "p9"), stamp_ms=stamp_ms),
    lambda job, stamp_ms: replace(job, published=None, stamp_ms=stamp_ms),
    lambda job, stamp_ms: replace(turned(job, "pause", order("pause", NOW_MS + 50, THEIRS)), stamp_ms=stamp_ms),
    lambda job, stamp_ms: replace(JOB, stamp_ms=stamp_ms),
    lambda job, stamp_ms: replace(published(NOW_MS - 1, instance="p0"), stamp_ms=stamp_ms),
)


def course() -> list[JobRecord]:
    """A job's honest records."""
    jobs = [JOB]
    for step, what in enumerate(("pause", "resume", "reset", "stop"), 1):
        jobs.append(turned(jobs[-1], what, order(what, NOW_MS + step, keep_ms=1 if what == "stop" else 0)))
    jobs.append(jobs[-1].tombstone(NOW_MS, order("end", NOW_MS + 9)))
    return [*jobs, replace(published(NOW_MS + 10, instance="p2"), stamp_ms=jobs[-1].stamp_ms + 1)]


COURSE = course()


@given(st.data())
def test_whatever_a_member_forges_the_creators_newest_record_stays(data: st.DataObject) -> None:
    """Honest records up to some point, forged ones of any stamp between them: what is known is always an honest one."""
    catalogue = Catalogue()
    told = data.draw(st.integers(1, len(COURSE)))
    honest = COURSE[:told]
    events: list[JobRecord] = []
    for job in honest:
        events.append(job)
        for forge in data.draw(st.lists(st.sampled_from(FORGERIES), max_size=3)):
            if not job.stopped:  # a name that is over is free
                events.append(forge(job, data.draw(st.integers(0, (1 << 53) - 1))))
    if data.draw(st.booleans()):
        # What an agent hears first is what it is told first; the rest may come in any order.
        rest = events[1:]
        random.Random(data.draw(st.integers(0, 99))).shuffle(rest)
        events = [events[0], *rest]
    for job in events:
        try:
            catalogue.admit(b"", job_record(job), NOW_MS)
            catalogue.learn(job)
        except (NotCreatorError, NotAdmittedError):
            assert job not in honest or not is_next(catalogue, job)
        known = catalogue.job(DEFINITION.app_id)
        assert known is None or replace(known, stamp_ms=0) in [replace(each, stamp_ms=0) for each in honest]


def is_next(catalogue: Catalogue, job: JobRecord) -> bool:
    """Tell whether a job's honest record follows what is known."""
    known = catalogue.job(DEFINITION.app_id)
    return known in COURSE and COURSE.index(job) == COURSE.index(known) + 1


def test_nothing_is_checked_of_jobs_that_have_no_creator() -> None:
    check_own(UNOWNED)
    check_successor(UNOWNED, UNOWNED.tombstone(0), 0)
    assert UNOWNED.history[0].since == NEVER
