"""The less loaded of two candidates is master; one out of reach loses; two publishers never place one job twice."""

import asyncio
import random
from collections.abc import Callable

import msgspec
import pytest

from elf.agents.errors import UnavailableError
from elf.agents.group.holds import Holds
from elf.agents.publications import candidates
from elf.agents.publications.candidates import Candidates, Placement
from elf.agents.wire.placement import Weigh, Weight
from elf.agents.wire.records import JobRecord
from elf.agents.wire.replies import Reply, encode_reply
from elf.agents.wire.request import decode_request
from elf.overlay.errors import OverlayError, UnreachableError
from elf.overlay.ids import Contact
from elf.overlay.placement import candidate_key
from tests.agents.plans import plan_of

DEFINITION = plan_of().definition
APP = DEFINITION.app_id
ME, FIRST, SECOND = (Contact.at("127.0.0.1", port) for port in (4000, 4001, 4002))


class Network:
    """Two candidates: their loads, what they hold, and whether they can be reached."""

    def __init__(self, *loads: int) -> None:
        self.contacts = {candidate_key(APP, 0): FIRST, candidate_key(APP, 1): SECOND}
        self.loads = dict(zip((FIRST, SECOND), loads, strict=True))
        self.holds = {contact: Holds() for contact in (FIRST, SECOND)}
        self.running: dict[Contact, JobRecord] = {}
        self.deaf: set[Contact] = set()
        self.lost: set[bytes] = set()
        self.nonsense: set[Contact] = set()
        self.asked: list[tuple[str, bool]] = []
        self.now_ms = 0

    def publisher(self, contact: Contact = ME) -> Candidates:
        return Candidates(Node(self, contact), random.Random(1))  # type: ignore[arg-type]


class Node:
    def __init__(self, network: Network, contact: Contact) -> None:
        self.network, self.contact = network, contact

    async def closest(self, key: bytes, width: int = 3) -> list[Contact]:
        if key in self.network.lost:
            raise OverlayError("nobody answers")
        return [self.network.contacts[key], ME]

    async def ask(self, contact: Contact, body: bytes, timeout_ms: int = 0) -> bytes:
        network = self.network
        await asyncio.sleep(0)
        if contact in network.deaf:
            raise UnreachableError("no answer")
        request = decode_request(body)
        assert isinstance(request, Weigh)
        network.asked.append((contact.address, request.hold))
        if contact in network.nonsense:
            return encode_reply(Reply(value={"roots": "many"}))
        holder = network.holds[contact].take(request, network.now_ms)
        weight = Weight(roots=network.loads[contact], job=network.running.get(contact), holder=holder)
        return encode_reply(Reply(value=msgspec.to_builtins(weight)))


def record(master: Contact, salt: int, stamp_ms: int = 1) -> JobRecord:
    return JobRecord(
        definition=DEFINITION,
        master_host=master.host,
        master_port=master.port,
        published_ms=1,
        instance="i",
        stamp_ms=stamp_ms,
        salt=salt,
    )


@pytest.mark.parametrize(
    ("loads", "expected"),
    [((0, 0), Placement(FIRST, 0)), ((1, 0), Placement(SECOND, 1)), ((3, 4), Placement(FIRST, 0))],
)
async def test_the_less_loaded_candidate_is_chosen_and_a_tie_goes_to_salt_0(
    loads: tuple[int, int], expected: Placement
) -> None:
    network = Network(*loads)
    assert await network.publisher().choose(APP) == expected
    assert network.asked == [(FIRST.address, True), (SECOND.address, True)], "each asked once"


def deaf(network: Network) -> None:
    network.deaf.add(FIRST)


def lost(network: Network) -> None:
    network.lost.add(APP)


def talks_nonsense(network: Network) -> None:
    network.nonsense.add(FIRST)


@pytest.mark.parametrize("break_first", [deaf, lost, talks_nonsense])
async def test_a_candidate_out_of_reach_loses(break_first: Callable[[Network], None]) -> None:
    network = Network(0, 9)
    break_first(network)
    assert await network.publisher().choose(APP) == Placement(SECOND, 1)


async def test_with_both_out_of_reach_the_error_names_them() -> None:
    network = Network(0, 0)
    network.deaf = {FIRST, SECOND}
    with pytest.raises(UnavailableError, match=r"neither candidate.*127.0.0.1:4001 and 127.0.0.1:4002"):
        await network.publisher().choose(APP)


@pytest.mark.parametrize("salt", [0, 1])
async def test_a_job_that_runs_on_a_candidate_keeps_its_master(salt: int) -> None:
    network = Network(*((5, 0), (0, 5))[salt])
    master = (FIRST, SECOND)[salt]
    network.running[master] = record(master, salt)
    assert await network.publisher().choose(APP) == Placement(master, salt)


async def test_of_two_records_of_a_running_job_the_later_counts() -> None:
    network = Network(0, 0)
    network.running = {FIRST: record(FIRST, 0), SECOND: record(SECOND, 1, stamp_ms=2)}
    assert await network.publisher().choose(APP) == Placement(SECOND, 1)


async def test_two_publishers_at_once_never_choose_two_masters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the order of arrival: while one may install, the other comes again, and then finds the job running."""
    monkeypatch.setattr(candidates, "PAUSE_S_MAX", 0.001)
    placed = 0
    for seed in range(100):
        network, rng = Network(1, 1), random.Random(seed)

        async def publish(port: int, network: Network = network, rng: random.Random = rng) -> Placement | None:
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            try:
                placement = await network.publisher(Contact.at("127.0.0.1", port)).choose(APP)
            except UnavailableError:
                return None
            network.loads[placement.master] += 1
            for _ in range(rng.randrange(20)):
                await asyncio.sleep(0)
            network.running[placement.master] = record(placement.master, placement.salt)
            return placement

        found = {placement for placement in await asyncio.gather(publish(5000), publish(5001)) if placement}
        assert len(found) <= 1, f"seed {seed}"
        placed += len(found)
    assert placed > 50


async def test_who_comes_second_finds_the_job_running_once_it_is_installed() -> None:
    network = Network(1, 0)
    first = await network.publisher(Contact.at("127.0.0.1", 5000)).choose(APP)
    network.running[first.master] = record(first.master, first.salt)
    assert await network.publisher(Contact.at("127.0.0.1", 5001)).choose(APP) == first


async def test_who_is_held_off_lets_go_of_what_it_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "PAUSE_S_MAX", 0.001)
    network = Network(0, 0)
    network.holds[SECOND].take(Weigh(APP, "other:1"), 0)
    with pytest.raises(UnavailableError, match="published through other:1"):
        await network.publisher().choose(APP)
    assert network.holds[FIRST].take(Weigh(APP, "third:1"), 0) is None, "the first candidate is free again"


async def test_who_has_published_holds_nothing_any_more_and_who_waits_comes_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidates, "PAUSE_S_MAX", 0.001)
    network = Network(0, 0)
    first, second = (network.publisher(Contact.at("127.0.0.1", port)) for port in (5000, 5001))
    assert await first.choose(APP) == Placement(FIRST, 0)
    waiting = asyncio.create_task(second.choose(APP))
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(network.asked) > 4, "the other has asked, too"
    assert not waiting.done(), "it is being published"
    await first.release(APP)
    assert await waiting == Placement(FIRST, 0)
    await first.release(APP)
    assert network.holds[FIRST].take(Weigh(APP, "third:1"), 0) == "127.0.0.1:5001", "only what one holds oneself"
    await second.release(APP)
    assert all(holds.take(Weigh(APP, "third:1"), 0) is None for holds in network.holds.values())
