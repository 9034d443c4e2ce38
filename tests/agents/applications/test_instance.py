"""What callbacks get and what becomes of what they ask for, without an agent."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

import elf
from elf.agents.applications.instance import Instance
from elf.agents.extensions.application_contract import (
    Answered,
    ApplicationError,
    Asked,
    Closed,
    Effect,
    Heard,
    Multicast,
    Publish,
    Received,
    Reply,
    Route,
    Rung,
    Send,
    SetTimer,
    Started,
    Subscribe,
)
from elf.agents.extensions.application_declaration import EFFECTS_MAX, columns_of
from elf.agents.wire.application_messages import packed
from elf.agents.wire.result import Completeness, Result, Window

RESULT = Result(
    job="shop/sold",
    columns=[],
    rows=[{"product": "tetris", "n": 2}],
    completeness=Completeness(expected=2, reported=1, missing=["web2"], status="final_incomplete"),
    window=Window(0, 30_000),
    through_ms=30_000,
    version=3,
)


class Noting(elf.Application):
    """Notes its callbacks, and does in each what the test says."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.does: Any = None

    def _note(self, *call: Any) -> Any:
        self.calls.append(call)
        return self.does(self.elf) if self.does is not None else None

    def on_start(self) -> None:
        self._note("start", self.elf.role, self.elf.job, self.elf.agent)

    def on_result(self, result: Result) -> None:
        self._note("result", result)

    def on_timer(self) -> None:
        self._note("timer", self.elf.now_ms)

    def on_recv(self, sender: str, message: Any) -> None:
        self._note("recv", sender, message)

    def on_multicast(self, message: Any) -> None:
        self._note("multicast", message)

    def on_missed(self) -> None:
        self._note("missed")

    def on_route(self, asker: str, query: Any) -> Any:
        return self._note("route", asker, query)

    def on_answer(self, answer: elf.Answer) -> None:
        self._note("answer", answer)


def make(role: Any = "master") -> tuple[Instance, Noting]:
    instance = Instance(Noting, role, "shop/sold", "web1", random.Random(1))
    assert instance.handle(Started(), 5) == []
    assert isinstance(instance.application, Noting)
    return instance, instance.application


def test_each_input_is_one_callback() -> None:
    instance, noting = make()
    for event in (
        Closed(RESULT),
        Rung(),
        Received("web2", packed({"a": [1, None]})),
        Heard(packed("x")),
        Heard(None),
        Asked("shop/other", packed(7)),
    ):
        instance.handle(event, 9)
    assert noting.calls == [
        ("start", "master", "shop/sold", "web1"),
        ("result", RESULT),
        ("timer", 9),
        ("recv", "web2", {"a": [1, None]}),
        ("multicast", "x"),
        ("missed",),
        ("route", "shop/other", 7),
    ]


def asked(role: Any, does: Any) -> list[Effect]:
    instance, noting = make(role)
    noting.does = does
    return instance.handle(Rung(), 0)


def test_what_callbacks_ask_for_comes_in_order() -> None:
    def all_calls(elf: Any) -> None:
        elf.multicast([1])
        elf.send_to("web2", None)
        elf.set_timer(1_000)
        elf.subscribe("other")
        elf.route("you/yours", {"q": 1})

    assert asked("master", all_calls) == [
        Multicast(b"[1]"),
        Send("web2", b"null"),
        SetTimer(1_000),
        Subscribe("shop/other"),
        Route(1, "you/yours", b'{"q":1}'),
    ]
    assert asked("agent", lambda elf: elf.send_to_master(1.5)) == [Send(None, b"1.5")]


def test_what_is_published_has_the_window_and_label_of_what_it_was_made_of() -> None:
    rows = [{"bundle": None, "n": 1}, {"bundle": ["a"], "n": 2, "share": 0.5}]
    (effect,) = asked("master", lambda elf: elf.publish(rows, of=RESULT))
    assert isinstance(effect, Publish)
    told = effect.result
    assert told["rows"] == rows and told["window"] == {"start_ms": 0, "end_ms": 30_000}
    assert told["completeness"]["missing"] == ["web2"] and (told["job"], told["version"]) == ("shop/sold", 3)
    assert told["columns"] == [
        {"name": "bundle", "type": "ARRAY<STRING>"},
        {"name": "n", "type": "BIGINT"},
        {"name": "share", "type": "DOUBLE"},
    ]
    assert columns_of([{"x": None, "y": True}]) == [
        {"name": "x", "type": "STRING"},
        {"name": "y", "type": "BOOLEAN"},
    ]


def throw(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("role", "does", "why"),
    [
        ("agent", lambda elf: elf.multicast(1), "multicast is for the master; this runs at the agent"),
        ("agent", lambda elf: elf.keep(1), "keep is for the master; this runs at the agent"),
        ("master", lambda elf: elf.keep("x" * 65_535), "an application keeps at most 65536 bytes as JSON, not 65537"),
        ("master", lambda elf: elf.keep({1}), "a message is made of what JSON has; set is none of it"),
        ("agent", lambda elf: elf.subscribe("x"), "subscribe is for the master"),
        ("agent", lambda elf: elf.route("x", 1), "route is for the master"),
        ("agent", lambda elf: elf.publish([], of=RESULT), "publish is for the master"),
        ("master", lambda elf: elf.send_to_master(1), "send_to_master is for the agent; this runs at the master"),
        ("master", lambda elf: elf.set_timer(9), "a timer is set to 10 to 604800000 ms, not to 9"),
        ("master", lambda elf: elf.multicast({1: 2}), "keys of a message are texts; 1 is int"),
        ("master", lambda elf: elf.publish([{}] * 10_001, of=RESULT), "at most 10000 rows can be published, not 10001"),
        ("master", lambda elf: [elf.set_timer(10) for _ in range(EFFECTS_MAX + 1)], "asks for more than 10000 things"),
        ("master", lambda elf: exit(3), "SystemExit: 3"),
        ("master", lambda elf: throw(asyncio.CancelledError()), "CancelledError"),
        ("agent", lambda elf: throw(MemoryError("too much")), "MemoryError: too much"),
    ],
)
def test_a_callback_that_fails_names_itself_and_why(role: Any, does: Any, why: str) -> None:
    instance, noting = make(role)
    noting.does = does
    with pytest.raises(ApplicationError, match=r"^on_timer failed: ") as caught:
        instance.handle(Rung(), 0)
    assert why in str(caught.value)


class Unborn(elf.Application):
    def __init__(self) -> None:
        raise LookupError(self.elf.job)


def test_one_that_cannot_be_made_fails_likewise() -> None:
    with pytest.raises(ApplicationError, match=r"^__init__ failed: LookupError: shop/sold$"):
        Instance(Unborn, "agent", "shop/sold", "web1", random.Random(1)).handle(Started(), 0)


def test_a_query_that_fails_is_answered_so_and_ends_nothing() -> None:
    instance, noting = make()
    noting.does = lambda elf: {}["no"]
    assert instance.handle(Asked("", packed(1)), 0) == [Reply(None, "on_route failed: KeyError: 'no'")]
    for raised in (asyncio.CancelledError, GeneratorExit, MemoryError):
        noting.does = lambda elf, raised=raised: throw(raised())
        assert instance.handle(Asked("", packed(1)), 0) == [Reply(None, f"on_route failed: {raised.__name__}")]
    noting.does = lambda elf: {1, 2}
    (reply,) = instance.handle(Asked("", packed(1)), 0)
    assert isinstance(reply, Reply) and "a message is made of what JSON has; set is none of it" in reply.error
    noting.does = lambda elf: elf.multicast(1) or "yes"
    assert instance.handle(Asked("", packed(1)), 0) == [Reply(b'"yes"'), Multicast(b"1")]
    plain = Instance(elf.Application, "master", "shop/sold", "web1", random.Random(1))
    plain.handle(Started(), 0)
    assert plain.handle(Asked("", packed(1)), 0) == [Reply(None, "this application answers no queries")]


def test_answers_come_with_what_was_asked_each_once() -> None:
    instance, noting = make()
    noting.does = lambda elf: elf.route("other", "best")
    instance.handle(Rung(), 0)
    instance.handle(Rung(), 0)
    noting.does = None
    instance.handle(Answered(2, None, "nobody answers"), 0)
    for _ in range(2):
        instance.handle(Answered(1, packed([1])), 0)
    instance.handle(Answered(99, packed([1])), 0)
    assert noting.calls[3:] == [
        ("answer", elf.Answer("shop/other", "best", None, "nobody answers")),
        ("answer", elf.Answer("shop/other", "best", [1], None)),
    ]


@pytest.mark.parametrize("body", [b"", b"\xff", b"{", b'"\xff"', b"[" * 100_000])
def test_bytes_of_a_peer_that_are_no_message_change_nothing(body: bytes) -> None:
    instance, noting = make()
    for event in (Heard(body), Received("web2", body), Answered(1, body)):
        assert instance.handle(event, 0) == []
    (reply,) = instance.handle(Asked("", body), 0)
    assert isinstance(reply, Reply) and reply.body is None and "the query is no message" in reply.error
    assert len(noting.calls) == 1


@pytest.mark.parametrize("kept", [b"", b"{", b"\xff", b"[" * 40_000])
def test_bytes_that_nobody_can_have_kept_are_nothing(kept: bytes) -> None:
    instance = Instance(Noting, "master", "shop/sold", "web1", random.Random(), kept)
    assert instance.elf.kept is None and instance.handle(Started(), 0) == []
