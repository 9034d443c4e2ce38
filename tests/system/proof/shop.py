"""A large shop for the proof: logs of late and out-of-order clicks by a million people, agents, and three jobs."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import pathlib
from dataclasses import dataclass

from elf.demo.clicks import COLUMNS, generate
from tests.system.cluster import AgentProcess, make_agents

SOURCE = "clicks"
MINUTE_MS = 60_000
FAKETIME = next(iter(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
#: Most of the lines that are out of order are in time, some are not.
OUT_OF_ORDER_SHARE, OUT_OF_ORDER_MS, LATENESS = 0.02, 8_000, "6s"


@dataclass(frozen=True)
class Job:
    """One job of the proof."""

    name: str
    query: str
    size_ms: int
    slide_ms: int
    straggler: str = "late"

    @property
    def key(self) -> str:
        """`creator/name`."""
        return f"shop/{self.name}"

    @property
    def text(self) -> str:
        """The job file."""
        window = f"window(ts, '{self.size_ms} milliseconds', '{self.slide_ms} milliseconds')"
        return f"""
name = "{self.name}"
creator = "shop"
query = \"\"\"
{self.query.format(window=window)}
\"\"\"
[options]
lateness = "{LATENESS}"
straggler = "{self.straggler}"
"""


#: The ten most clicked; all people, of whom those are told who came often, as an answer has to fit into a message; and
#: sketches, which drop what comes too late for its interval.
TOP = Job(
    "top",
    """SELECT product, count(*) AS clicks, sum(price_cents) AS cents FROM clicks
WHERE event = 'click' AND category = 'Video Games'
GROUP BY product, {window} ORDER BY clicks DESC, product LIMIT 10""",
    5 * MINUTE_MS,
    MINUTE_MS,
)
PEOPLE = Job(
    "people",
    "SELECT user, count(*) AS n, sum(price_cents) AS cents FROM clicks GROUP BY user, {window} HAVING count(*) > 5",
    2 * MINUTE_MS,
    2 * MINUTE_MS,
)
SKETCHES = Job(
    "sketches",
    """SELECT category, count(*) AS n, approx_count_distinct(user) AS people,
  approx_percentile(price_cents, 0.95) AS p95
FROM clicks GROUP BY category, {window}""",
    5 * MINUTE_MS,
    5 * MINUTE_MS,
    straggler="drop",
)
JOBS = (TOP, PEOPLE, SKETCHES)


@dataclass(frozen=True)
class Size:
    """How large a proof is: so many events of so many people, evenly over a time and over the agents."""

    events: int
    minutes: int
    agents: int
    users: int
    start_ms: int

    @property
    def until_ms(self) -> int:
        """When the last event has happened."""
        return self.start_ms + self.minutes * MINUTE_MS

    @property
    def lines(self) -> int:
        """Lines of one log: its events, and one of after the time, which closes all windows."""
        return self.events // self.agents + 1


def write_logs(folder: pathlib.Path, size: Size) -> list[pathlib.Path]:
    """Write each agent's log, two at a time, and return them."""
    paths = [log_of(folder, number) for number in range(1, size.agents + 1)]
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        done = [pool.submit(_write, path, number, size) for number, path in enumerate(paths)]
        for each in done:
            each.result()
    return paths


def _write(path: pathlib.Path, number: int, size: Size) -> None:
    count = size.lines - 1
    rate_per_s = count / (size.minutes * 60)
    more = (OUT_OF_ORDER_SHARE, OUT_OF_ORDER_MS, size.users)
    with path.open("ab") as out:
        for chunk in generate(number, count, size.start_ms, rate_per_s, *more):
            out.write(chunk)
        for chunk in generate(number, 1, size.until_ms + 2 * OUT_OF_ORDER_MS, 1, 0):
            out.write(chunk)


def make_shop(folder: pathlib.Path, agents: int, minutes: int) -> list[AgentProcess]:
    """Make agents with empty logs, whose clocks are minutes slow until they are set."""
    # Types are declared, so that jobs can be published before the first line is read.
    settings = {"format": "json", "columns": COLUMNS}
    logs = [log_of(folder, number) for number in range(1, agents + 1)]
    for log in logs:
        log.touch()
    made = make_agents(folder, [{SOURCE: {"path": str(log), **settings}} for log in logs])
    for agent in made:
        # The wrapper `faketime` would stand between us and the process that we end.
        clock = {"FAKETIME": f"-{minutes}m", "FAKETIME_DONT_FAKE_MONOTONIC": 1, "FAKETIME_FORCE_MONOTONIC_FIX": 0}
        agent.before = ["env", f"LD_PRELOAD={FAKETIME}", *(f"{name}={value}" for name, value in clock.items())]
    return made


def log_of(folder: pathlib.Path, number: int) -> pathlib.Path:
    """Return where an agent's log lies."""
    return folder / f"clicks-{number}.log"
