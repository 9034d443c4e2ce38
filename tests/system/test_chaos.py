"""Real agents killed, stopped and deafened while they count: `scripts/chaos`, small. And that its judge would see."""

import pathlib

import pytest

from tests.system.chaos.judge import Answer, Promise, Rows, Verdict, judge
from tests.system.chaos.plan import draw
from tests.system.chaos.run import Settings, play

TRUTH: Rows = {"web01": (3, 6, 3, 1, 3), "web02": (2, 3, 2, 1, 2)}


def answer(
    rows: Rows, status: str = "final", missing: tuple[str, ...] = (), revision: int = 0, at_s: int = 0
) -> Answer:
    return Answer("origins", 0, rows, status, missing, revision, 0, "web01", at_s, at_s + 0.5)


def judged(*answers: Answer, drops: bool = False) -> Verdict:
    return judge({"origins": Promise({0: TRUTH}, keyed_by_agent=True, drops=drops)}, answers, late=False)


def test_twenty_kills_stops_and_cuts_leave_every_result_exact(tmp_path: pathlib.Path) -> None:
    said: list[str] = []
    report = play(Settings(agents=6, events=60_000, kills=20, minutes=0.6, seed=5), tmp_path, said.append)
    assert not report.wrong, "\n".join([report.settings.again(), *report.table(), *report.wrong[:50], *report.log])
    assert report.written == 60_000
    done = report.fleet.done
    assert done["kill"] == 20 and done["kill of a master"] and done["stop of 30 s"]
    assert report.verdict.windows > 20


def test_the_judge_accepts_a_window_that_was_short_named_and_corrected() -> None:
    short = {"web01": TRUTH["web01"]}
    verdict = judged(answer(short, "final_incomplete", ("web02",)), answer(TRUTH, "revised", revision=1, at_s=1))
    assert (verdict.wrong, verdict.incomplete, verdict.corrected, verdict.exact) == ([], 1, 1, 0)
    assert judged(answer({"web01": (1, 1, 1, 1, 1)}, "open"), answer(TRUTH, at_s=1)).exact == 1


def test_the_judge_lets_a_job_drop_what_it_names() -> None:
    short: Rows = {"web01": TRUTH["web01"]}
    assert judged(answer(short, "final_incomplete", ("web02",)), drops=True).dropped == 1
    assert judged(answer(short, "final_incomplete", ("web01",)), drops=True).wrong
    assert judged(answer(TRUTH), drops=True).exact == 1


def test_the_judge_waits_for_late_events_until_the_end_and_for_no_others() -> None:
    late = {"web01": TRUTH["web01"], "web01-late": (1, 9, 1, 9, 9)}
    promise = Promise({0: late}, keyed_by_agent=True, late_keys=frozenset({"web01-late"}), late_suffix="-late")

    def wrong(*answers: Answer) -> list[str]:
        return judge({"origins": promise}, answers, late=False).wrong

    whole = answer(late, "revised", revision=1, at_s=1)
    assert not wrong(answer({"web01": TRUTH["web01"]}), whole)
    assert not wrong(answer({}, "final_incomplete", ("web01",)), whole)
    assert any("web01: None instead of" in why for why in wrong(answer({"web01-late": late["web01-late"]}), whole))
    assert any("is more than" in why for why in wrong(answer(late | {"web01-late": (2, 9, 2, 9, 9)}), whole))
    assert any("this is how it ended" in why for why in wrong(answer({"web01": TRUTH["web01"]})))


@pytest.mark.parametrize(
    ("rows", "status", "missing", "why"),
    [
        (TRUTH | {"web01": (4, 7, 3, 1, 3)}, "open", (), "4 counted, 3 of them distinct"),
        (TRUTH | {"web01": (4, 10, 4, 1, 4)}, "final_incomplete", ("web01",), "is more than"),
        (TRUTH | {"web03": (1, 1, 1, 1, 1)}, "final_incomplete", ("web03",), "that has no events"),
        (TRUTH | {"web01": (2, 5, 2, 1, 4)}, "open", (), "has events that"),
        ({"web01": TRUTH["web01"]}, "final", (), "web02: None instead of (2, 3, 2, 1, 2)"),
        ({"web02": TRUTH["web02"]}, "final_incomplete", ("web02",), "web01: None instead of (3, 6, 3, 1, 3)"),
        (TRUTH, "final_incomplete", (), "nobody is missing"),
        (TRUTH, "revised", ("web01",), "somebody is missing"),
    ],
)
def test_the_judge_sees(rows: Rows, status: str, missing: tuple[str, ...], why: str) -> None:
    verdict = judged(answer(rows, status, missing), answer(TRUTH, "revised", revision=9, at_s=1))
    assert any(why in sentence for sentence in verdict.wrong), verdict.wrong


def test_the_judge_sees_what_changes_without_a_revision_and_what_never_ends() -> None:
    short: Rows = {"web01": TRUTH["web01"]}
    changed = judged(answer(short, "final_incomplete", ("web02",)), answer(TRUTH, at_s=1))
    assert any("other rows than" in sentence for sentence in changed.wrong)
    fallen = judged(answer(TRUTH, "revised", revision=2), answer(TRUTH, "revised", revision=1, at_s=1))
    assert any("revision has fallen" in sentence for sentence in fallen.wrong)
    unended = judged(answer(short, "final_incomplete", ("web02",)))
    assert any("this is how it ended" in sentence for sentence in unended.wrong)
    assert judged().wrong == [f"origins [0): this is how it ended; the truth is {TRUTH}"]


def test_equal_seeds_draw_equal_faults() -> None:
    faults = draw(7, 200, 600.0)
    assert faults == draw(7, 200, 600.0) != draw(8, 200, 600.0)
    kinds = [(fault.kind, fault.seconds) for fault in faults]
    assert sum(kind == "kill" for kind, _ in kinds) == 200
    assert kinds.count(("stop", 3.0)) == 20 and kinds.count(("stop", 30.0)) == 4
    assert all(0 <= fault.at_s <= 600 for fault in faults)
