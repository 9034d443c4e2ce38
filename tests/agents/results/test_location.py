"""A question reaches the job's master whichever candidate key it was placed by, and whichever candidate is down."""

import asyncio
from collections.abc import Awaitable

import pytest
from msgspec.structs import replace

from elf.agents.errors import JobError, UnavailableError, UnknownJobError
from elf.agents.results import location
from elf.agents.results.answerer import parted, parted_job
from elf.agents.results.location import Found, Locator
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.questions import Locate, Located, Query, Stop
from elf.agents.wire.records import JobRecord
from elf.agents.wire.replies import Reply, encode_reply, reply_of_error
from elf.agents.wire.request import decode_request
from elf.overlay.contract import Answer
from elf.overlay.errors import NotFoundError, UnreachableError
from elf.overlay.ids import Contact
from elf.overlay.placement import candidate_key
from tests.agents.plans import plan_of

DEFINITION = replace(plan_of().definition, columns={"product": "STRING", "cents": "BIGINT"})
APP = DEFINITION.app_id
ME, MASTER, KNOWER, OLD = (Contact.at("127.0.0.1", port) for port in (4000, 4001, 4002, 4003))
JOB = JobRecord(
    definition=DEFINITION,
    master_host=MASTER.host,
    master_port=MASTER.port,
    published_ms=1,
    instance="i",
    stamp_ms=5,
    salt=1,
)
QUERY = Query(APP, "latest")
LATE = 0.05


class Overlay:
    """What the agents on the way toward each key say; the master is `MASTER`."""

    contact = ME

    def __init__(self) -> None:
        self.ways: dict[int, Located | Exception] = {0: NotFoundError("no"), 1: NotFoundError("no")}
        self.late: set[int] = set()
        self.masters: dict[Contact, object] = {MASTER: "rows"}
        self.asked: list[tuple[Contact, object]] = []
        #: The agents nearest to both keys, and those that know the job, with what they know.
        self.near: list[Contact] | Exception = []
        self.knowing: dict[Contact, JobRecord] = {}
        self.routed: list[int] = []

    async def route(self, key: bytes, body: bytes, timeout_ms: int = 0) -> Answer:
        salt = next(salt for salt in (0, 1) if candidate_key(APP, salt) == key)
        request = decode_request(body)
        assert isinstance(request, Locate)
        self.routed.append(salt)
        await asyncio.sleep(LATE if salt in self.late else 0)
        said = self.ways[salt]
        if isinstance(said, Exception):
            raise said
        if request.question is None:
            said = replace(said, answer=None)
        way = (KNOWER.address,) if said.answer is None else (KNOWER.address, MASTER.address)
        return Answer(encode_reply(Reply(value=said.plain())), way)

    async def closest(self, key: bytes, width: int) -> list[Contact]:
        if isinstance(self.near, Exception):
            raise self.near
        return [ME, *self.near][:width]

    async def ask(self, contact: Contact, body: bytes, timeout_ms: int = 0) -> bytes:
        if isinstance(decode_request(body), Locate):
            if contact not in self.knowing:
                raise NotFoundError("no")
            return encode_reply(Reply(value=Located(job=self.knowing[contact]).plain()))
        self.asked.append((contact, decode_request(body)))
        said = self.masters.get(contact, NotFoundError("no"))
        if isinstance(said, JobError):
            return encode_reply(reply_of_error(said))
        if isinstance(said, Exception):
            raise said
        return encode_reply(Reply(value=said))


class Site:
    def __init__(self) -> None:
        self.overlay, self.catalogue = Overlay(), Catalogue()
        self.rows: list[dict[str, str]] = []
        self.mastered: set[bytes] = set()
        #: The provisional master known here, those that others know, and how often they were asked.
        self.side: Contact | None = None
        self.others: list[Contact] = []
        self.asked_around = 0
        self.locator = Locator(
            self.overlay,  # type: ignore[arg-type]
            self.catalogue,
            self.mastered,  # type: ignore[arg-type]
            self.jobs,
            lambda app: self.side,
            self.sides,
        )

    async def jobs(self, app: bytes) -> list[dict[str, str]]:
        return self.rows

    async def sides(self, app: bytes) -> list[Contact]:
        self.asked_around += 1
        return self.others

    def ask(self, request: Query | Stop = QUERY) -> Awaitable[Found]:
        return self.locator.ask("shop/top", request, 2_000)


@pytest.mark.parametrize("salt", [0, 1])
async def test_the_master_answers_on_the_way_to_either_key(salt: int) -> None:
    site = Site()
    site.overlay.ways[salt] = Located(job=JOB, answer="rows")
    assert await site.ask() == ("rows", [KNOWER.address, MASTER.address])
    assert site.overlay.asked == [], "no further way than before there were two keys"


async def test_bytes_of_an_answer_that_comes_with_the_way_stay_bytes() -> None:
    site = Site()
    site.overlay.ways[0] = Located(job=JOB, answer=parted(JOB))
    value, _ = await site.ask()
    assert parted_job(value) == JOB


@pytest.mark.parametrize("salt", [0, 1])
@pytest.mark.parametrize("other", [NotFoundError("no"), UnreachableError("down")], ids=["absent", "down"])
async def test_whoever_knows_the_job_points_to_its_master(salt: int, other: Exception) -> None:
    site = Site()
    site.overlay.ways = {salt: Located(job=JOB), 1 - salt: other}
    assert await site.ask() == ("rows", [KNOWER.address, MASTER.address])
    assert site.overlay.asked == [(MASTER, QUERY)]


async def test_the_slower_key_is_not_waited_for() -> None:
    site = Site()
    site.overlay.late, site.overlay.ways[1] = {0}, Located(job=JOB)
    site.overlay.ways[0] = AssertionError("waited for")
    assert (await site.ask())[0] == "rows"


@pytest.mark.parametrize("answered", [False, True])
async def test_the_next_question_goes_toward_the_key_that_won(answered: bool) -> None:
    site = Site()
    site.overlay.ways[1] = Located(job=JOB, answer="rows" if answered else None)
    for _ in range(3):
        assert (await site.ask())[0] == "rows"
    assert site.overlay.routed == [0, 1, 1, 1]


async def test_when_that_key_leads_nowhere_any_more_the_other_one_is_tried_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(location, "HEDGE_S", 0.01)
    site = Site()
    site.overlay.ways[1] = Located(job=JOB)
    await site.ask()
    moved = replace(JOB, salt=0, stamp_ms=9)
    for silent in (False, True):
        site.overlay.ways = {0: Located(job=moved), 1: NotFoundError("no")}
        site.overlay.late = {1} if silent else set()
        assert (await site.ask())[0] == "rows"
        site.overlay.ways[1] = Located(job=JOB)
        site.overlay.ways[0] = NotFoundError("no")
        site.overlay.late = set()
        assert (await site.ask())[0] == "rows"


async def test_no_more_keys_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location, "SALTS_MAX", 0)
    site = Site()
    site.overlay.ways[1] = Located(job=JOB)
    await site.ask()
    await site.ask()
    assert sorted(site.overlay.routed) == [0, 0, 1, 1]


async def test_who_knows_the_job_asks_straight_away() -> None:
    site = Site()
    site.catalogue.learn(JOB)
    assert await site.ask() == ("rows", [MASTER.address])


async def test_the_master_asks_itself_without_a_hop() -> None:
    site = Site()
    site.mastered.add(APP)
    site.overlay.masters[ME] = "own rows"
    assert await site.ask() == ("own rows", [])


async def test_an_old_master_that_is_still_named_is_passed_by() -> None:
    site = Site()
    old = replace(JOB, master_port=OLD.port, salt=0, instance="old", stamp_ms=1)
    site.catalogue.learn(old)
    site.overlay.late = {1}
    site.overlay.ways = {0: Located(job=old), 1: Located(job=JOB)}
    assert (await site.ask())[0] == "rows"
    assert [contact for contact, _ in site.overlay.asked] == [OLD, MASTER], "nobody is asked twice"


async def test_a_job_that_neither_key_leads_to_is_found_among_those_the_neighbours_know() -> None:
    site = Site()
    site.rows = [{"creator": "shop", "name": "top", "app_id": APP.hex(), "master": MASTER.address}]
    site.overlay.ways[0] = UnreachableError("down")
    assert await site.ask() == ("rows", [MASTER.address])


async def test_a_newcomer_nearer_to_the_key_than_all_that_know_a_job_hides_it_from_nobody() -> None:
    site = Site()
    site.overlay.near, site.overlay.knowing = [OLD, KNOWER], {KNOWER: JOB}
    assert await site.ask() == ("rows", [MASTER.address])
    # The key by which it was found is no hint that leads anywhere else.
    assert await site.ask() == ("rows", [MASTER.address])
    old = replace(JOB, master_port=OLD.port, instance="old", stamp_ms=1)
    site.overlay.knowing[OLD] = old
    site.overlay.asked.clear()
    assert await site.ask() == ("rows", [MASTER.address])
    assert [contact for contact, _ in site.overlay.asked] == [MASTER], "the newest counts"


@pytest.mark.parametrize("near", [[], UnreachableError("nobody answers")])
async def test_a_job_whose_master_somebody_names_exists_also_while_that_is_it_no_more(
    near: list[Contact] | Exception,
) -> None:
    site = Site()
    site.overlay.ways[1], site.overlay.near = Located(job=JOB), near
    site.overlay.masters.clear()
    with pytest.raises(UnavailableError, match=r"shop/top has no master at the moment; .*:4001 was"):
        await site.ask()
    # Unless somebody knows that it is over.
    site.rows = [{"creator": "shop", "name": "top", "app_id": APP.hex(), "state": "ended", "ends_ms": None}]  # type: ignore[dict-item]
    with pytest.raises(UnknownJobError, match="stopped for good"):
        await site.ask()


async def test_a_stop_reaches_the_master_once() -> None:
    site = Site()
    site.overlay.ways = dict.fromkeys((0, 1), Located(job=JOB, answer="rows"))
    await site.ask(Stop(APP))
    assert site.overlay.asked == [(MASTER, Stop(APP))]


async def test_a_job_nobody_knows_is_answered_with_names_like_it() -> None:
    site = Site()
    site.rows = [{"creator": "shop", "name": "tops", "app_id": "00", "master": MASTER.address}]
    with pytest.raises(UnknownJobError) as failure:
        await site.ask()
    assert failure.value.nearest == ("shop/tops",)


async def test_a_job_that_is_known_exists_also_while_nobody_is_its_master() -> None:
    site = Site()
    site.rows = [{"creator": "shop", "name": "top", "app_id": APP.hex(), "master": MASTER.address}]
    site.overlay.masters[MASTER] = NotFoundError("not mine any more")
    with pytest.raises(UnavailableError, match="shop/top has no master at the moment"):
        await site.ask()


@pytest.mark.parametrize("salt", [0, 1])
async def test_with_one_candidate_down_and_nobody_who_knows_the_job_may_exist(salt: int) -> None:
    site = Site()
    site.overlay.ways[salt] = UnreachableError("no answer from 127.0.0.1:4001")
    with pytest.raises(UnavailableError, match="shop/top does not answer: no answer from"):
        await site.ask()


async def test_a_master_out_of_reach_is_said_to_be() -> None:
    site = Site()
    site.overlay.ways[1] = Located(job=JOB)
    site.overlay.masters[MASTER] = UnreachableError("the link closed")
    with pytest.raises(UnavailableError, match="the link closed"):
        await site.ask()


async def test_what_the_master_refuses_is_refused_once() -> None:
    site = Site()
    site.overlay.ways = dict.fromkeys((0, 1), Located(job=JOB))
    site.overlay.masters[MASTER] = JobError("this job has no window")
    with pytest.raises(JobError, match="no window"):
        await site.ask()
    assert len(site.overlay.asked) == 1


async def test_an_answer_that_is_no_location_is_trouble_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.overlay.ways[0] = Located(job=JOB)

    async def nonsense(key: bytes, body: bytes, timeout_ms: int = 0) -> Answer:
        return Answer(encode_reply(Reply(value={"job": 7})), ())

    monkeypatch.setattr(site.overlay, "route", nonsense)
    with pytest.raises(UnavailableError):
        await site.ask()


PARTIAL = replace(
    JOB, definition=replace(DEFINITION, options=replace(DEFINITION.options, availability="partial")), stamp_ms=6
)


async def test_a_provisional_master_that_is_known_here_is_asked_first() -> None:
    site = Site()
    site.catalogue.learn(PARTIAL)
    site.side = OLD
    site.overlay.masters[OLD] = "partial rows"
    assert await site.ask() == ("partial rows", [OLD.address])
    assert [contact for contact, _ in site.overlay.asked] == [OLD]


async def test_once_it_is_one_no_more_the_master_is_asked() -> None:
    site = Site()
    site.catalogue.learn(PARTIAL)
    site.side = OLD
    assert (await site.ask())[0] == "rows"
    assert [contact for contact, _ in site.overlay.asked] == [OLD, MASTER]


@pytest.mark.parametrize("known", [True, False])
async def test_who_knows_of_no_provisional_master_asks_others_last(known: bool) -> None:
    site = Site()
    if known:
        site.catalogue.learn(PARTIAL)
    site.rows = [{"creator": "shop", "name": "top", "app_id": APP.hex(), "master": MASTER.address}]
    site.others = [OLD]
    site.overlay.masters = {MASTER: UnreachableError("the link closed"), OLD: "partial rows"}
    assert await site.ask() == ("partial rows", [OLD.address])


async def test_nobody_is_asked_for_a_provisional_master_of_a_job_that_has_none() -> None:
    site = Site()
    site.catalogue.learn(JOB)
    site.overlay.masters[MASTER] = UnreachableError("the link closed")
    with pytest.raises(UnavailableError):
        await site.ask()
    assert site.asked_around == 0


async def test_a_stop_is_for_the_master_alone() -> None:
    site = Site()
    site.catalogue.learn(PARTIAL)
    site.side, site.others = OLD, [OLD]
    site.overlay.masters = {MASTER: UnreachableError("the link closed"), OLD: "partial rows"}
    with pytest.raises(UnavailableError):
        await site.ask(Stop(APP))
    assert [contact for contact, _ in site.overlay.asked] == [MASTER]
