"""A network is cut in two: both sides answer for a job that wants that, say so, and agree once it heals."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import pathlib
import threading
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.system.chaos.fleet import SOURCE, Member, get, running
from tests.system.chaos.traffic import Writer
from tests.system.cluster import wait_until

AGENTS = 5
SIZE_MS = 1_000
DEADLINE_S = 120.0
JOB = "/v1/jobs/shop/origins"
TEXT = f"""
name = "origins"
creator = "shop"
query = '''
SELECT origin, count(*) AS n, sum(number) AS total
FROM {SOURCE} GROUP BY origin, window(ts, '{SIZE_MS} milliseconds')
'''
[options]
lateness = "1 second"
leap_after = "3 seconds"
availability = "partial"
"""
Counts = dict[str, tuple[int, int]]


def truth(members: Sequence[Member]) -> dict[int, Counts]:
    """Return start_ms -> origin -> count and sum, line by line."""
    found: dict[int, Counts] = defaultdict(dict)
    for member in members:
        for line in member.log.read_text().splitlines():
            event = json.loads(line)
            window = found[event["ts"] // SIZE_MS * SIZE_MS]
            count, total = window.get(event["origin"], (0, 0))
            window[event["origin"]] = count + 1, total + event["number"]
    return found


def counts(result: Mapping[str, Any]) -> Counts:
    return {row["origin"]: (row["n"], row["total"]) for row in result["rows"]}


def ask(member: Member, path: str) -> Any:
    """Ask an agent on its host; None while it has no answer."""
    try:
        return member.call(functools.partial(get, member, JOB + path, timeout_s=30.0))
    except (OSError, urllib.error.HTTPError):
        return None


def window(member: Member, start_ms: int) -> Any:
    return ask(member, f"/result?window={start_ms}/{start_ms + SIZE_MS}")


def publish(member: Member) -> None:
    request = urllib.request.Request(
        f"{member.agent.url}/v1/jobs",
        json.dumps({"definition": TEXT}).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 201


@contextlib.contextmanager
def following(member: Member) -> Iterator[list[dict[str, Any]]]:
    """Follow the job on an agent's host; the list grows with what it sends."""
    found: list[dict[str, Any]] = []
    stop = threading.Event()

    cursor = ""

    def read_on() -> None:
        """Read events until the connection ends; one that it ends in the midst of counts for nothing."""
        nonlocal cursor
        request = urllib.request.Request(member.agent.url + JOB + "/stream", headers={"Last-Event-ID": cursor})
        with urllib.request.urlopen(request, timeout=15) as lines:
            event: dict[str, str] = {}
            for line in lines:
                if stop.is_set():
                    return
                name, _, value = line.decode().rstrip("\n").partition(": ")
                event[name] = value
                if line == b"\n":
                    if "data" in event:
                        found.append(json.loads(event["data"]))
                        cursor = event.get("id", cursor)
                    event = {}

    def read() -> None:
        member.enter()
        while not stop.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                read_on()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join(30)


@pytest.fixture
def split(tmp_path: pathlib.Path) -> Iterator[tuple[list[Member], Callable[[Sequence[Member]], None]]]:
    """Five agents that count, and what cuts some of them off from the others (of nobody: heals)."""
    with running(tmp_path, AGENTS) as fleet:
        assert fleet.on_hosts, "this test needs network namespaces: run it as root"

        def cut(side: Sequence[Member]) -> None:
            for member in fleet.members:
                assert member.host is not None
                member.host.hear()
                others = [other.host for other in fleet.members if (other in side) != (member in side)]
                member.host.deaf_to(*(other for other in others if other is not None))

        yield fleet.members, cut


def group_of(member: Member) -> list[dict[str, Any]]:
    described = ask(member, "")
    return [] if described is None else list(described["group"]["members"])


def partial_window(member: Member, after_ms: int, side: Sequence[Member]) -> Any:
    """Return an agent's newest window if it is of its side and has counted since the cut."""
    result = ask(member, "/result")
    if result is None or result["completeness"]["status"] != "partial" or result["window"]["start_ms"] < after_ms:
        return None
    names = {each.name for each in side}
    missing = set(result["completeness"]["missing"])
    return result if missing.isdisjoint(names) and len(missing) + len(names) == AGENTS else None


@pytest.mark.parametrize("cut_off", ["the master", "others"])
def test_both_sides_of_a_cut_answer_and_say_so_and_agree_on_the_truth_once_it_heals(
    split: tuple[list[Member], Callable[[Sequence[Member]], None]], cut_off: str
) -> None:
    members, cut = split
    wait_until(lambda: all(member.call(member.agent.ready) for member in members), "all run", DEADLINE_S)
    writer = Writer([member.log for member in members], 1 << 40, float(1 << 31), late=0.0, seed=1)
    writer.start()
    try:
        members[0].call(lambda: publish(members[0]))
        wait_until(lambda: sum(m["votes"] for m in group_of(members[0])) == AGENTS, "five vote", DEADLINE_S)
        wait_until(lambda: (ask(members[0], "/result") or {}).get("rows"), "a first window", DEADLINE_S)
        address = ask(members[0], "")["master"]
        master = next(member for member in members if member.agent.overlay == address)
        others = [member for member in members if member is not master]
        few = [master, others[0]] if cut_off == "the master" else others[:2]
        many = [member for member in members if member not in few]
        with following(few[-1]) as followed:
            wait_until(lambda: followed, "the follower is told", DEADLINE_S)
            from_ms = ask(few[-1], "/result")["window"]["end_ms"] + 4 * SIZE_MS
            cut(few)
            seen = [
                wait_until(
                    functools.partial(partial_window, member, from_ms, side),
                    f"{member.name} answers for its side: {member.agent.messages()}",
                    DEADLINE_S,
                )
                for side in (few, many)
                for member in side
            ]
            wait_until(lambda: followed[-1]["completeness"]["status"] == "partial", "the follower is told", DEADLINE_S)
            refused = few[-1].call(lambda: require_complete(few[-1]))
            assert refused == 409
            for result, side in zip(seen, [few] * len(few) + [many] * len(many), strict=True):
                known = result["completeness"]
                assert known["side"] in {member.name for member in side} and known["term"] > 0
                held = truth(side)[result["window"]["start_ms"]]
                assert counts(result) == held, (known, result["window"])
            cut([])
            healed_ms = max(result["window"]["end_ms"] for result in seen) + 4 * SIZE_MS
            wait_until(
                lambda: (
                    (ask(few[-1], "/result") or {"through_ms": 0})["through_ms"] > healed_ms
                    and ask(few[-1], "/result")["completeness"]["status"] in ("final", "revised")
                ),
                "all is final again",
                DEADLINE_S,
            )
            writer.stop.set()
            writer.join()
            told = {
                result["window"]["start_ms"] for result in followed if result["completeness"]["status"] == "partial"
            }
            assert told
            wait_until(
                lambda: not unsettled(followed, told),
                lambda: f"the follower is told again of what was partial: {last_words(followed, told)}",
                DEADLINE_S,
            )
    finally:
        writer.stop.set()
    expected = {start: rows for start, rows in truth(members).items() if start < healed_ms}
    for member in members:
        wait_until(lambda: wrong(member, expected) == [], f"all is exact at {member.name}", DEADLINE_S)  # noqa: B023


def require_complete(member: Member) -> int:
    try:
        get(member, JOB + "/result?require=complete", timeout_s=30.0)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


def unsettled(followed: Sequence[Mapping[str, Any]], told: set[int]) -> set[int]:
    """Return the windows of which a follower's last word is not final, nor that they were too many to be sent."""
    last = {result["window"]["start_ms"]: result["completeness"]["status"] for result in followed}
    rests = [result[name] for result in followed for name in ("also_closed", "also_revised") if name in result]
    rest = {start for start in told for run in rests if run["start_ms"] <= start < run["end_ms"]}
    return {start for start in told - rest if last[start] not in ("final", "revised")}


def last_words(followed: Sequence[Mapping[str, Any]], told: set[int]) -> list[Any]:
    """Return what a follower was told of unsettled windows, for people."""
    words = [(result["window"]["start_ms"], result["through_ms"], result["completeness"]) for result in followed]
    lacking = unsettled(followed, told)
    return [*[each for each in words if each[0] in lacking], "last of all", words[-1]]


def wrong(member: Member, expected: Mapping[int, Counts]) -> list[int]:
    """Return the windows that do not hold what they must, or are not final."""
    found = {start: window(member, start) for start in sorted(expected)[1:]}
    return [
        start
        for start, result in found.items()
        if result is None
        or counts(result) != expected[start]
        or result["completeness"]["status"] not in ("final", "revised", "final_incomplete")
    ]
