"""Each checker notices what it is there for: one violation after the other, planted into a truth that is all right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from elf.overlay.sim.machines import EPOCH_MS
from tests.world import checkers
from tests.world.truth import PUSHED, Answer, Event, JobPlan, Known, Truth

JOB = JobPlan(name="each", source=PUSHED, size_ms=2_000)
NOW_S = 20.0


def answer(rows: dict[int, tuple[str, int]], **changed: object) -> Answer:
    plain = Answer(
        job="each",
        start_ms=10_000,
        rows=rows,
        status="final",
        missing=(),
        gaps=0,
        void=0,
        revision=0,
        version=1,
        master="10.0.0.1:4250",
        via="web0",
        asked_s=NOW_S,
        answered_s=NOW_S + 0.1,
    )
    return replace(plain, **changed)  # type: ignore[arg-type]


def right() -> Truth:
    """Two events of two agents in one window, both counted, after a first answer that names who was missing."""
    truth = Truth(jobs=(JOB,), published_s={"each": 0.0})
    for host, ts_ms in (("web0", 10_100), ("web1", 11_900)):
        event = truth.push(PUSHED, host, ts_ms, now_s=ts_ms / 1000)
        event.acked_s, event.shown_ms = ts_ms / 1000 + 0.1, ts_ms + 100
    truth.answers = [
        answer({0: ("web0", 1)}, status="final_incomplete", missing=("web1",), asked_s=15.0, answered_s=15.1),
        answer({0: ("web0", 1), 1: ("web1", 1)}, status="revised", revision=1),
    ]
    truth.known = [Known(host, NOW_S, "each", "p", {1: "a", 2: "b"}, 3, "web1") for host in ("web0", "web1")]
    return truth


def test_nothing_is_wrong_with_a_right_one() -> None:
    assert checkers.check_all(right()) == []


def test_a_late_event_may_come_with_a_later_revision_and_has_to_come() -> None:
    truth = right()
    truth.answers.insert(1, answer({0: ("web0", 1)}, asked_s=16.0, answered_s=16.1))
    assert checkers.check_labels(truth), "it was not late"
    truth.events[1].shown_ms = 13_000
    assert checkers.check_labels(truth) == []
    truth.answers = truth.answers[:2]
    assert "how it ended" in checkers.check_end(truth)[0]


def test_what_a_disk_took_with_it_is_named() -> None:
    truth = right()
    truth.lose("web1", 12_500)
    truth.answers[-1] = answer({0: ("web0", 1)}, status="revised", revision=1)
    assert checkers.check_labels(truth)
    assert checkers.check_end(truth)
    truth.answers[-1] = answer({0: ("web0", 1)}, status="final_incomplete", gaps=1, revision=1)
    assert checkers.check_all(truth) == []


def came_late() -> Truth:
    """The second agent came while the window was open, and was expected only after it had counted something."""
    truth = right()
    # Windows here are of another epoch than the World's.
    truth.joined_s, truth.enrolled_s = {"web1": 11.0 - EPOCH_MS / 1_000}, {("each", 0, "web1"): 11.95}
    truth.answers = [answer({0: ("web0", 1)})]
    return truth


def test_an_agent_that_comes_is_missed_since_it_is_expected() -> None:
    truth = came_late()
    assert checkers.check_labels(truth) == []
    assert "event 1 of web1 is not in it" in checkers.check_end(truth)[0], "it has to be counted or named in the end"
    truth.enrolled_s["each", 0, "web1"] = 11.5
    assert "event 1 of web1, acknowledged" in checkers.check_labels(truth)[0]
    truth.enrolled_s.clear()
    truth.answers[-1] = answer({0: ("web0", 1)}, status="final_incomplete", missing=("web1",))
    assert checkers.check_all(truth) == []


def retired(since_ms: int | None) -> Truth:
    """The second agent is taken out of service, and a window closes without it."""
    truth = right()
    truth.gone.add("web1")
    truth.retire("web1", [{"job": "world/each", "missing_since_ms": since_ms}])
    truth.answers = [answer({0: ("web0", 1)})]
    return truth


@pytest.mark.parametrize("since_ms", [11_000, None])
def test_what_an_operator_was_told_is_missing_may_be(since_ms: int | None) -> None:
    truth = retired(since_ms)
    assert checkers.check_all(truth) == []
    truth.enrolled_s["each", 0, "web1"] = 11.5
    assert "event 1 of web1, acknowledged" in checkers.check_labels(truth)[0], "it was back"


def test_an_agent_that_was_retired_is_counted_as_far_as_its_operator_was_told() -> None:
    truth = retired(12_000)
    assert "event 1 of web1, acknowledged" in checkers.check_labels(truth)[0]
    assert "event 1 of web1 is not in it" in checkers.check_end(truth)[0]


def test_an_agent_that_was_retired_and_came_back_brings_everything_in_the_end() -> None:
    truth = retired(11_000)
    truth.gone.clear()
    assert checkers.check_labels(truth) == []
    assert "event 1 of web1 is not in it" in checkers.check_end(truth)[0]


def last(**changed: object) -> Callable[[Truth], None]:
    """Change the last answer."""

    def plant(truth: Truth) -> None:
        truth.answers[-1] = replace(truth.answers[-1], **changed)  # type: ignore[arg-type]

    return plant


def add_event(truth: Truth) -> None:
    truth.events[7] = Event(7, PUSHED, "web0", 30_000, 30.0, 30.1, 30_100)


def forget_version(truth: Truth) -> None:
    truth.known[1] = replace(truth.known[1], versions={1: "a", 2: "c"})


def lead_twice(truth: Truth) -> None:
    truth.known[1] = replace(truth.known[1], leader="web0")


def fall_back(truth: Truth) -> None:
    truth.answers.append(replace(truth.answers[0], asked_s=NOW_S + 1, answered_s=NOW_S + 1.1))


BOTH = {0: ("web0", 1), 1: ("web1", 1)}


@pytest.mark.parametrize(
    ("check", "plant", "says"),
    [
        (checkers.check_counts, last(rows={**BOTH, 0: ("web0", 2)}), "counted 2 times"),
        (checkers.check_counts, last(rows={**BOTH, 5: ("web0", 1)}), "was not pushed there"),
        (checkers.check_counts, last(rows={**BOTH, 0: ("web1", 1)}), "was not pushed there"),
        (checkers.check_labels, last(rows={0: ("web0", 1)}), "event 1 of web1, acknowledged"),
        (checkers.check_labels, last(missing=("web1",)), "complete, although"),
        (checkers.check_labels, last(status="final_incomplete"), "does not say what is missing"),
        (checkers.check_labels, last(status="final_incomplete", missing=("web0",), rows={}), "event 1 of web1"),
        (checkers.check_revisions, last(revision=0), "other rows than"),
        (checkers.check_revisions, last(revision=0, rows={0: ("web0", 1)}, version=2), "other rows than"),
        (checkers.check_revisions, fall_back, "its revision has fallen"),
        (checkers.check_end, last(status="open"), "never closed"),
        (checkers.check_end, last(status="partial"), "although the network is whole"),
        (checkers.check_end, add_event, "never closed"),
        (checkers.check_end, last(rows={0: ("web0", 1)}), "event 1 of web1 is not in it"),
        (checkers.check_end, last(status="final_incomplete", gaps=1), "no disk was lost"),
        (checkers.check_versions, forget_version, "another version 2"),
        (checkers.check_leaders, lead_twice, "leader of term 3"),
    ],
)
def test_a_violation_is_noticed(check: Callable[[Truth], list[str]], plant: Callable[[Truth], None], says: str) -> None:
    truth = right()
    plant(truth)
    assert says in check(truth)[0]


@pytest.mark.parametrize(
    ("archived", "says"),
    [([0], ""), ([0, 0], "has event 0 2 times"), ([0, 1], "event 1, which is not its"), ([], "lacks event 0")],
)
def test_an_archive_that_is_not_what_its_agent_had_is_noticed(archived: list[int], says: str) -> None:
    found = checkers.check_archive(right(), PUSHED, "web0", archived)
    assert (says in found[0]) if says else found == []


def test_an_archive_may_lack_what_went_with_a_disk() -> None:
    truth = right()
    truth.lose("web0", 12_000)
    assert checkers.check_archive(truth, PUSHED, "web0", []) == []
    assert checkers.check_archive(truth, PUSHED, "web0", [0, 0]), "but has nothing twice"
