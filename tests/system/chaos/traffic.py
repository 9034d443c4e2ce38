"""The events of a chaos run, its readers, and the truth from the logs, which DuckDB computes."""

from __future__ import annotations

import json
import pathlib
import random
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from tests.system.chaos.fleet import SOURCE, Fleet, Member, get
from tests.system.chaos.judge import Answer, Rows, Truth

TICK_S = 0.1
#: Pause of a reader between two questions.
PAUSE_S = 0.4
LATENESS_MS = 2_000
#: Events that come late on purpose: so long after their time, which is more than an interval and the lateness; what
#: `key` says of them, so that a judge can tell them from those in time. Others come in time, at most so much later.
LATE_MS, IN_TIME_MS = (4_500, 14_000), 1_000
LATE_KIND, LATE_ORIGIN = 9, "-late"


@dataclass(frozen=True)
class Job:
    """One job: `key` names what it groups by, `columns` what it says of each group."""

    name: str
    key: str
    columns: str
    size_ms: int
    slide_ms: int
    straggler: str = "late"

    @property
    def path(self) -> str:
        return f"/v1/jobs/chaos/{self.name}"

    def text(self, leap_after_s: float) -> str:
        """Return the job file."""
        return f"""
name = "{self.name}"
creator = "chaos"
query = '''
SELECT {self.key}, {self.columns} FROM {SOURCE}
GROUP BY {self.key}, window(ts, '{self.size_ms} milliseconds', '{self.slide_ms} milliseconds')
'''
[options]
lateness = "{LATENESS_MS} ms"
leap_after = "{round(leap_after_s * 1000)} ms"
straggler = "{self.straggler}"
"""


_TWO = "count(*) AS n, sum(number) AS total"
_THREE = "count(DISTINCT number) AS numbers, min(number) AS least, max(number) AS most"
#: Every number counted, and whose; by a key that all agents share, over windows made of running totals; and once more
#: whose, where what comes too late is dropped.
JOBS = (
    Job("origins", "origin", f"{_TWO}, {_THREE}", 4_000, 2_000),
    Job("kinds", "kind", _TWO, 8_000, 2_000),
    Job("drops", "origin", _TWO, 2_000, 2_000, straggler="drop"),
)


class Writer(threading.Thread):
    """Appends numbered events to all logs at an even rate, timed just before they are written.

    With `late` a share of them are timed long before that, and another share somewhat before, each of `late`.
    """

    def __init__(self, logs: Sequence[pathlib.Path], events: int, duration_s: float, late: float, seed: int) -> None:
        super().__init__(name="writer", daemon=True)
        self._late, self._rng = late, random.Random(f"writer {seed}")
        self._logs, self._events, self._duration_s = logs, events, duration_s
        self.written = 0
        #: Longest time between taking an event's time and having written it: more than the lateness makes late events.
        self.delay_ms_max = 0
        self.stop = threading.Event()

    def run(self) -> None:
        began_s = time.monotonic()
        files = [log.open("ab", buffering=0) for log in self._logs]
        while self.written < self._events and not self.stop.is_set():
            due = min(self._events, int((time.monotonic() - began_s) / self._duration_s * self._events))
            for place, (file, log) in enumerate(zip(files, self._logs, strict=True)):
                # Event e is number e // logs of the log e % logs.
                first, last = (-(-(count - place) // len(files)) for count in (self.written, due))
                at_ms = time.time_ns() // 1_000_000
                file.write("".join(self._line(log.stem, at_ms, n) for n in range(first, last)).encode())
                self.delay_ms_max = max(self.delay_ms_max, time.time_ns() // 1_000_000 - at_ms)
            self.written = due
            self.stop.wait(TICK_S)
        for file in files:
            file.close()

    def _line(self, origin: str, at_ms: int, number: int) -> str:
        kind, drawn = number % 5, self._rng.random()
        if drawn < self._late:
            at_ms, origin, kind = at_ms - self._rng.randint(*LATE_MS), origin + LATE_ORIGIN, LATE_KIND
        elif drawn < 2 * self._late:
            at_ms -= self._rng.randint(0, IN_TIME_MS)
        return f'{{"ts":{at_ms},"origin":"{origin}","kind":{kind},"number":{number}}}\n'


@dataclass
class Notebook:
    """What readers saw; of equal answers in a row only the first is kept."""

    answers: list[Answer] = field(default_factory=list)
    count: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    through_ms: dict[str, int] = field(default_factory=dict)
    #: The last answer about each window.
    last: dict[tuple[str, int], Answer] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, answer: Answer, through_ms: int | None) -> None:
        with self.lock:
            self.count += 1
            self.through_ms[answer.job] = max(self.through_ms.get(answer.job, 0), through_ms or 0)
            known = self.last.get((answer.job, answer.start_ms))
            if known is None or _content(known) != _content(answer):
                self.answers.append(answer)
            self.last[answer.job, answer.start_ms] = answer


def ask(fleet: Fleet, notebook: Notebook, member: Member, job: Job, start_ms: int) -> Answer | None:
    """Ask one agent for one window and note its answer; None, noted too, when there is none."""
    asked_s = time.monotonic()
    try:
        body = get(member, f"{job.path}/result?window={start_ms}/{start_ms + job.size_ms}")
    except urllib.error.HTTPError as error:
        # Problems say which error of ours it was; anything but "not now" is noted with its text.
        text = error.read().decode(errors="replace")
        with notebook.lock:
            notebook.errors["unavailable" if error.code == 503 else f"{error.code}: {text[:300]}"] += 1
        return None
    except OSError:
        with notebook.lock:
            notebook.errors["agent away"] += 1
        return None
    label = body["completeness"]
    answer = Answer(
        job=job.name,
        start_ms=start_ms,
        rows=_rows(job, body["rows"]),
        status=label["status"],
        missing=tuple(label["missing"]),
        revision=label["revision"],
        late=label["late"],
        via=member.name,
        asked_s=asked_s,
        answered_s=time.monotonic(),
    )
    fleet.masters[job.name] = body["master"]
    notebook.note(answer, body["through_ms"])
    return answer


class Reader(threading.Thread):
    """Asks one agent again and again: for the newest window, those that lack something, old ones, and open ones."""

    def __init__(self, fleet: Fleet, member: Member, notebook: Notebook, since_ms: int, seed: int) -> None:
        super().__init__(name=f"reader of {member.name}", daemon=True)
        self._fleet, self._member, self._notebook, self._since_ms = fleet, member, notebook, since_ms
        self._rng = random.Random(f"{seed} {member.name}")
        self.stop = threading.Event()

    def run(self) -> None:
        self._member.enter()
        while not self.stop.wait(PAUSE_S * self._rng.uniform(0.5, 1.5)):
            job = self._rng.choice(JOBS)
            ask(self._fleet, self._notebook, self._member, job, self._pick(job))

    def _pick(self, job: Job) -> int:
        with self._notebook.lock:
            through_ms = self._notebook.through_ms.get(job.name, 0)
            lacking = [at for (name, at), seen in self._notebook.last.items() if name == job.name and seen.missing]
        newest = through_ms // job.slide_ms * job.slide_ms - job.size_ms
        oldest = self._since_ms // job.slide_ms * job.slide_ms - job.size_ms
        if newest <= oldest:
            return oldest
        match self._rng.choices(("newest", "lacking", "any", "open"), (5, 3, 3, 1))[0]:
            case "lacking" if lacking:
                return self._rng.choice(lacking)
            case "any":
                return self._rng.randrange(oldest, newest + 1, job.slide_ms)
            case "open":
                return newest + job.slide_ms
        return newest


def count_archived(archives: Sequence[pathlib.Path]) -> tuple[int, int]:
    """Return how many events the agents' archives hold, and how many different ones."""
    query = "SELECT count(*), count(DISTINCT (origin, number)) FROM read_parquet($files)"
    with duckdb.connect() as database:
        row = database.execute(query, {"files": [f"{archive}/**/*.parquet" for archive in archives]}).fetchone()
    assert row is not None
    return row[0], row[1]


def compute_truth(job: Job, logs: Sequence[pathlib.Path]) -> Truth:
    """Return the rows of every window that has events, from the logs alone."""
    query = f"""
    WITH events AS (
      SELECT ts, origin, kind, number
      FROM read_json($files, format = 'newline_delimited',
        columns = {{ts: 'BIGINT', origin: 'VARCHAR', kind: 'BIGINT', number: 'BIGINT'}})),
    placed AS (
      SELECT (ts // {job.slide_ms} - k) * {job.slide_ms} AS start_ms, {job.key}::VARCHAR AS key, number
      FROM events, range({job.size_ms // job.slide_ms}) AS slides(k))
    SELECT start_ms, key, count(*), sum(number)::BIGINT, count(DISTINCT number), min(number), max(number)
    FROM placed GROUP BY ALL
    """
    windows: dict[int, dict[str, tuple[int, ...]]] = {}
    width = 1 + job.columns.count(",")
    with duckdb.connect() as database:
        rows = database.execute(query, {"files": [str(log) for log in logs]}).fetchall()
    for start_ms, key, *row in rows:
        windows.setdefault(start_ms, {})[key] = tuple(row[:width])
    return windows


def _rows(job: Job, rows: Sequence[Mapping[str, Any]]) -> Rows:
    return {str(row[job.key]): tuple(value for name, value in row.items() if name != job.key) for row in rows}


def _content(answer: Answer) -> object:
    return answer.rows, answer.status, answer.missing, answer.revision, answer.late


def dump(path: pathlib.Path, answers: Sequence[Answer]) -> None:
    """Write all answers to a file, a line of JSON each, for whoever looks for a fault."""
    with path.open("w") as out:
        for answer in answers:
            out.write(json.dumps(vars(answer)) + "\n")
