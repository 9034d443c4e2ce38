"""Which windows `--since` means, and how they are asked for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from elf.agents.errors import ExpiredError, JobError, UnavailableError
from elf.client.results import Version
from elf.offline.asking import JobText, Slides
from elf.offline.verify.windows import ask_windows, labels_of, windows_since

JOB = JobText("shop", "top", "clicks", "", {}, Slides(30, 10), 10, through_ms=127, oldest_ms=40)


def test_since_counts_back_from_the_newest_closed_interval() -> None:
    assert windows_since(JOB, "20ms") == [(80, 110), (90, 120)]
    assert windows_since(JOB, "1970-01-01T00:00:00.100Z") == [(80, 110), (90, 120)]
    assert windows_since(JOB, "100") == [(80, 110), (90, 120)], "epoch milliseconds"


def test_the_only_version_of_a_job_counts_all_its_windows() -> None:
    query = "SELECT count(*) AS n FROM clicks GROUP BY window(ts, '30 milliseconds', '10 milliseconds')"
    only = Version(version=1, what="publish", query=query, made_ms=0)
    assert (only.since_ms, only.until_ms) == (None, None)
    assert windows_since(replace(JOB, versions=[only]), "20ms") == windows_since(JOB, "20ms")


def test_windows_that_reach_back_before_the_first_version_are_known_and_before_a_later_one_not() -> None:
    query = "SELECT count(*) AS n FROM clicks GROUP BY window(ts, '30 milliseconds', '10 milliseconds')"
    first = Version(version=1, what="publish", query=query, made_ms=0, since_ms=70, begins_ms=70)
    assert windows_since(replace(JOB, versions=[first]), "7d")[0] == (50, 80), "the first that it counts anything of"
    later = replace(first, version=40, what="resume")
    assert windows_since(replace(JOB, versions=[later]), "7d")[0] == (70, 100)


def test_windows_from_before_the_first_pane_and_expired_ones_are_left_out() -> None:
    assert windows_since(JOB, "7d")[0] == (20, 50), "the first with anything of the first pane"
    assert windows_since(replace(JOB, expired_ms=40), "7d")[0] == (40, 70)
    assert windows_since(replace(JOB, expired_ms=41), "7d")[0] == (50, 80)
    assert windows_since(replace(JOB, through_ms=None), "7d") == []


@pytest.mark.parametrize(
    ("job", "since", "said"),
    [
        (replace(JOB, window=None), "2h", "has no window"),
        (JOB, "yesterday", "--since 'yesterday': 'yesterday' is not a time; .*; or a duration such as 2h or 7d"),
        (replace(JOB, through_ms=10**9, oldest_ms=0), "7d", "verify at most 100000"),
    ],
)
def test_what_cannot_be_meant_is_refused(job: JobText, since: str, said: str) -> None:
    with pytest.raises(JobError, match=said):
        windows_since(job, since)


class Client:
    """Answers each window with itself, but for those that have expired."""

    def __init__(self, expired: frozenset[str] = frozenset(), error: Exception | None = None) -> None:
        self.asked: list[tuple[str, int | None]] = []
        self._expired, self._error = expired, error

    def job(self, name: str) -> dict[str, Any]:
        raise NotImplementedError

    def query(self, name: str, *, window: str, limit: int | None = None) -> dict[str, Any]:
        assert name == "shop/top"
        self.asked.append((window, limit))
        if window in self._expired:
            raise ExpiredError("the window begins before 5")
        if self._error is not None:
            raise self._error
        return {"window": window, "completeness": {"status": "final", "of": window}}


def test_windows_come_in_order_and_those_that_expired_meanwhile_not_at_all() -> None:
    windows = [f"{start}/{start + 30}" for start in range(0, 1_000, 10)]
    client = Client(expired=frozenset(windows[:3]))
    results = ask_windows(client, JOB, windows)
    first = next(results)
    assert first["window"] == windows[3] and len(client.asked) < len(windows), "not all at once"
    assert [result["window"] for result in results] == windows[4:]


def test_a_master_that_stays_away_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elf.offline.patience.PATIENCE_S", 0.3)
    client = Client(error=UnavailableError("no master"))
    with pytest.raises(UnavailableError, match="no master"):
        list(ask_windows(client, JOB, ["0/30"]))
    assert len(client.asked) == 2
    monkeypatch.setattr("elf.offline.patience.PATIENCE_S", 3_600.0)
    failing = {"0/30": JobError("not whole intervals"), "10/40": UnavailableError("no master")}

    def query(name: str, *, window: str, limit: int | None = None) -> Any:
        raise failing[window]

    monkeypatch.setattr(client, "query", query)
    with pytest.raises(JobError, match="not whole intervals"):  # and an hour is not waited for the other one
        list(ask_windows(client, JOB, ["0/30", "10/40"]))


def test_labels_of_parts_are_asked_for_once_and_without_rows() -> None:
    client = Client()
    labels = labels_of(client, JOB)
    assert labels is not None and labels.interval_ms == 10
    assert [labels(0, 10)["of"], labels(0, 10)["of"]] == ["0/10", "0/10"]
    assert client.asked == [("0/10", 1)]
    assert labels_of(client, replace(JOB, window=None)) is None
