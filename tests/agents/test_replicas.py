"""Copies of snapshots: to whom they go, how long they stay, and when their holder answers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from agents import replicas
from agents.catalogue import Catalogue, job_record, member_record
from agents.jobs.definition import load_definition
from agents.replicas import Replicas
from agents.requests import JobRecord, Keep, Member, Reply, decode_request, encode
from agents.store.checkpoints import Snapshot
from overlay.contract import NEVER, TreeView
from overlay.errors import UnreachableError
from overlay.ids import Contact, distance

JOB = """
name = "job"
creator = "shop"
query = "SELECT count(*) AS n FROM clicks GROUP BY window(ts, '1 second')"
[options]
{options}
"""


def job_of(options: str) -> JobRecord:
    definition = load_definition(JOB.format(options=options))
    return JobRecord(
        definition=definition, master_host="10.0.0.1", master_port=1, published_ms=1, instance="i", stamp_ms=1
    )


class Node:
    """The overlay as `Replicas` sees it."""

    def __init__(self) -> None:
        self.contact = Contact.at("10.0.0.1", 1)
        self.member, self.verdicts = True, NEVER
        self.silent: set[str] = set()
        self.answered_twice = asyncio.Event()
        self.asked: list[tuple[str, Keep]] = []
        self.answers: list[tuple[str, int, int, bytes | None]] = []

    async def ask(self, contact: Contact, body: bytes, timeout_ms: int) -> bytes:
        request = decode_request(body)
        if isinstance(request, Keep):
            self.asked.append((contact.address, request))
        if contact.address in self.silent:
            raise UnreachableError("no answer in time")
        return encode(Reply(value=True))

    def tree(self, app: bytes) -> TreeView:
        return TreeView("member", self.member, None, None, ())

    def settled(self, app: bytes) -> int:
        return self.verdicts

    def answer_for(self, app: bytes, agent: str, since: int, through: int, payload: bytes | None) -> None:
        self.answers.append((agent, since, through, payload))
        if len(self.answers) == 2:
            self.answered_twice.set()


class Site:
    def __init__(self, options: str) -> None:
        self.node, self.catalogue, self.job = Node(), Catalogue(), job_of(options)
        self.catalogue.learn_record(job_record(self.job))
        for number in range(1, 5):
            member = Member(
                agent_id=f"a{number}", name=f"web{number}", address=f"10.0.0.{number}:1", sources=("clicks",)
            )
            self.catalogue.learn_record(member_record(member, 1))
        self.tasks: set[asyncio.Task[None]] = set()
        self.replicas = Replicas("a1", self.node, self.catalogue, self.spawn)  # type: ignore[arg-type]

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.add(asyncio.ensure_future(work))

    async def rest(self) -> None:
        while self.tasks:
            await self.tasks.pop()

    def near(self) -> list[str]:
        others = [Contact.at(f"10.0.0.{number}", 1) for number in (2, 3, 4)]
        return [each.address for each in sorted(others, key=lambda each: distance(each.id, self.node.contact.id))]


async def test_copies_go_to_the_nearest_that_answer_and_say_where_they_begin() -> None:
    site = Site('straggler = "mirror"\nreplicas = 2')
    near = site.near()
    site.node.silent.add(near[0])
    site.replicas.offer(site.job.tree, Snapshot(5, b"five"))
    await site.rest()
    assert [address for address, _ in site.node.asked] == near
    site.replicas.offer(site.job.tree, Snapshot(8, None))
    await site.rest()
    assert [address for address, _ in site.node.asked[3:]] == near[1:], "the silent one is passed over"
    copies = {(copy.agent, copy.since, copy.through, copy.payload) for _, copy in site.node.asked}
    assert copies == {("a1", NEVER, 5, b"five"), ("a1", 5, 8, None)}


async def test_a_job_says_how_many_copies_there_are() -> None:
    options = {"": 1, "replicas = 0": 0, "replicas = 3": 3, 'semantics = "at-most-once"': 0, 'straggler = "mirror"': 1}
    for text, number in options.items():
        site = Site(text)
        site.replicas.offer(site.job.tree, Snapshot(5, b"five"))
        await site.rest()
        assert len(site.node.asked) == number


async def test_empty_snapshots_are_copied_where_somebody_is_to_answer_for_the_slow() -> None:
    for text, number in (("", 0), ('straggler = "mirror"', 1)):
        site = Site(text)
        site.replicas.offer(site.job.tree, Snapshot(5, None))
        await site.rest()
        assert len(site.node.asked) == number
        site.replicas.offer(site.job.tree, Snapshot(6, b"six"))
        await site.rest()
        assert site.node.asked[-1][1].since == 5, "what was not copied was empty"


@pytest.mark.parametrize(("silent", "latest_s"), [(True, 1_000.0), (False, 0.05)])
async def test_a_holder_answers_for_the_silent_at_once_and_for_the_slow_at_last(
    monkeypatch: pytest.MonkeyPatch, silent: bool, latest_s: float
) -> None:
    monkeypatch.setattr(replicas, "LOOK_S", 0.001)
    monkeypatch.setattr(replicas, "ANSWER_AFTER_S", 0.02)
    monkeypatch.setattr(replicas, "ANSWER_LATEST_S", latest_s)
    site = Site('straggler = "mirror"')
    site.node.silent |= {"10.0.0.2:1"} if silent else set()
    for through in (1, 2, 3):
        assert site.replicas.keep(Keep(site.job.tree, "a2", through - 1, through, b"x"))
    assert site.replicas.held == 3
    site.node.verdicts = 1
    async with asyncio.timeout(10):
        await site.node.answered_twice.wait()
    assert site.node.answers == [("a2", 1, 2, b"x"), ("a2", 2, 3, b"x")]
    assert site.replicas.held == 2, "they stay, for what is held is bounded, until their verdict"
    site.node.verdicts = 3
    await site.rest()
    assert (site.replicas.held, site.replicas.answered, site.replicas.taken) == (0, 2, 3)


async def test_what_is_held_and_sent_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "HELD_BYTES_MAX", 10)
    monkeypatch.setattr(replicas, "SENDING_MAX", 2)
    site = Site("replicas = 1")
    tree = site.job.tree
    assert site.replicas.keep(Keep(tree, "a2", 0, 1, b"12345678"))
    assert not site.replicas.keep(Keep(tree, "a3", 0, 1, b"123"))
    assert not site.replicas.keep(Keep(tree, "a1", 0, 1, b""))
    site.node.member = False
    assert not site.replicas.keep(Keep(tree, "a4", 0, 1, b""))
    for through in (1, 2, 3):
        site.replicas.offer(tree, Snapshot(through, b"x"))
    site.node.verdicts = 1
    await site.rest()
    assert len(site.node.asked) == 2
    assert site.replicas.skipped == 2
    site.replicas.forget(tree)
    assert site.replicas.held == 0


def test_a_copy_covers_something() -> None:
    with pytest.raises(ValueError, match="must be below"):
        Keep(bytes(20), "a", 3, 3, None)
