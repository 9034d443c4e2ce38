"""The catalogue: the newest publication counts, a tombstone hides a job, a peer's nonsense is refused."""

import gc
import weakref

import msgspec
import pytest
from msgspec.structs import replace

from elf.agents.errors import JobError, NotAdmittedError
from elf.agents.wire.catalogue import AHEAD_MS, RECENT_MAX, Catalogue, job_record, member_record
from elf.agents.wire.records import JOB_KEY, JobRecord, Member
from elf.overlay.contract import NEVER, Record
from tests.agents.plans import plan_of

DEFINITION = replace(plan_of().definition, columns={"product": "STRING", "cents": "BIGINT"})
JOB = JobRecord(
    definition=DEFINITION, master_host="127.0.0.1", master_port=4250, published_ms=1, instance="i", stamp_ms=1
)
APP = DEFINITION.app_id


def newer(job: JobRecord, **changes: object) -> JobRecord:
    return replace(job, stamp_ms=job.stamp_ms + 1, **changes)


def test_a_job_is_learnt_from_its_record_with_its_plan() -> None:
    catalogue = Catalogue()
    assert catalogue.learn_record(job_record(JOB)) == JOB
    assert catalogue.running("clicks") == [JOB]
    assert catalogue.running("other") == []
    assert catalogue.plan(JOB.tree).interval_ms == 2_000


def test_a_tombstone_hides_the_job_and_an_older_publication_does_not_bring_it_back() -> None:
    catalogue = Catalogue()
    catalogue.learn(JOB.tombstone(0))
    catalogue.learn(JOB)
    assert catalogue.running() == []
    again = newer(newer(JOB))
    catalogue.learn(again)
    assert catalogue.running() == [again]


def test_members_give_agents_their_names() -> None:
    catalogue = Catalogue()
    member = Member(agent_id="a1", name="web1", address="127.0.0.1:4250", sources=("clicks",))
    assert catalogue.learn_record(member_record(member, 1)) is None
    assert catalogue.members("clicks") == [member]
    assert catalogue.name_of("a1") == "web1"
    assert catalogue.name_of("a2") == "a2"


def test_who_brings_an_old_record_of_an_agent_by_way_of_another_tree_changes_nothing() -> None:
    catalogue = Catalogue()
    member = Member(agent_id="a1", name="web1", address="127.0.0.1:4250", sources=("clicks",))
    catalogue.learn_record(member_record(member, 2))
    catalogue.learn_record(member_record(replace(member, address="127.0.0.1:9"), 1))
    assert catalogue.member("a1") == member
    assert catalogue.key_of("a1") is None
    catalogue.learn_record(member_record(replace(member, name="web2"), 3))
    assert catalogue.name_of("a1") == "web2"


def test_intervals_that_nobody_can_have_sealed_are_told_from_others() -> None:
    catalogue, now_ms = Catalogue(), 1_700_000_000_000
    catalogue.learn(JOB)
    last = (now_ms + AHEAD_MS) // 2_000 - 1
    ended = {each: catalogue.may_have_ended(JOB.tree, each, now_ms) for each in (last, last + 1, 0, NEVER + 1, -NEVER)}
    assert ended == {last: True, last + 1: False, 0: True, NEVER + 1: False, -NEVER: False}
    assert catalogue.may_have_ended(b"another tree", NEVER + 1, now_ms), "who does not know the job cannot say"


@pytest.mark.parametrize("key", ["job/shop/x", "member/a1"])
def test_bodies_that_are_not_what_the_key_says_are_refused(key: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        Catalogue().learn_record(Record(key, 1, b"\x93\x01\x02\x03"))


def test_another_publication_has_another_tree_near_the_job_and_takes_the_place_of_the_old_one() -> None:
    catalogue = Catalogue()
    catalogue.learn(JOB)
    again = newer(JOB, instance="j")
    catalogue.learn(again)
    assert again.tree[:12] == JOB.tree[:12] == APP[:12]
    assert catalogue.job_of_tree(again.tree) == again
    assert catalogue.job_of_tree(JOB.tree) is None


@pytest.mark.usefixtures("fresh_plans")
def test_versions_are_kept_of_jobs_that_somebody_asked_for() -> None:
    catalogue = Catalogue()
    catalogue.learn(JOB)
    others = [replace(JOB, definition=replace(DEFINITION, name=f"j{number}")) for number in range(RECENT_MAX)]
    asked = weakref.ref(catalogue.versions(JOB.tree))
    catalogue.learn(others[0])
    unasked = weakref.ref(catalogue._recent[-1])
    for other in others[1:]:
        catalogue.learn(other)
    catalogue.learn(replace(JOB, definition=replace(DEFINITION, name="last")))
    gc.collect()
    assert unasked() is None
    assert asked() is catalogue.versions(JOB.tree)
    assert catalogue.versions(others[0].tree).newest.version.definition == others[0].definition


def test_a_job_that_ends_is_learnt_though_its_last_change_cannot_run_here() -> None:
    catalogue = Catalogue()
    catalogue.learn(JOB)
    beyond = replace(DEFINITION, query="SELECT no_such_function(product), count(*) FROM clicks GROUP BY 1", version=2)
    with pytest.raises(JobError):
        catalogue.learn(newer(JOB, definition=beyond))
    assert [each.definition for each, _ in catalogue.unusable("clicks")] == [beyond]
    catalogue.learn(newer(newer(JOB, definition=beyond)).tombstone(0))
    assert catalogue.running() == [] and catalogue.is_over(JOB.tree)


@pytest.mark.parametrize(
    ("trees", "interval", "taken"), [(1, 100, True), (1, 20, False), (8, 100, False), (8, 500, True)]
)
def test_a_record_of_a_job_that_may_not_be_published_is_held_back(trees: int, interval: int, taken: bool) -> None:
    catalogue = Catalogue()
    options = replace(DEFINITION.options, trees=trees, interval_ms=interval)
    job = replace(JOB, definition=replace(DEFINITION, options=options))
    for record in (job_record(job), Record(JOB_KEY, 1, job.encode())):
        tree = job.tree if record.key == JOB_KEY else bytes(20)
        if taken:
            catalogue.admit(tree, record, 1)
        else:
            with pytest.raises(NotAdmittedError, match="the shortest are"):
                catalogue.admit(tree, record, 1)
    ended = job.tombstone(1)
    catalogue.admit(bytes(20), job_record(ended), 1)
    later = replace(job, definition=replace(job.definition, query="SELECT what LATER releases know"))
    catalogue.admit(bytes(20), job_record(later), 1)
