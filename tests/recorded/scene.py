"""What is recorded and read on: a shop's agents, their settings and logs, the jobs that run, and the events."""

from __future__ import annotations

import json
import pathlib
import random
import time
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from elf.agents.settings.config import AgentConfig, AgentSection, OverlaySection, SourceConfig

Click: TypeAlias = dict[str, Any]
#: Of each product how many clicks, and their cents.
Sums: TypeAlias = dict[str, tuple[int, int]]

#: Agents by name, and where the others reach them; the last one leaves for good while the state is recorded.
ADDRESSES = {"web1": "10.77.0.1:4250", "web2": "10.77.0.2:4250", "web3": "10.77.0.3:4250", "web4": "10.77.0.4:4250"}
NAMES = ("web1", "web2", "web3")
PRODUCTS = ("mug", "hat", "pen", "lamp", "Straße 1", "")
#: Whose jobs they are.
CREATOR = "shop"
#: Lines that are no events.
JUNK = ("{broken", "not an event at all", '{"product": "mug", "user": "nobody"}')

_WINDOW = "window(ts, '10 seconds')"
_CLICKS = f"FROM clicks GROUP BY product, {_WINDOW}"
#: Every aggregate whose state an agent keeps for a job.
_KINDS = """
SELECT product, count(*) AS n, count_if(cents > 100) AS dear, count(DISTINCT user) AS users, sum(cents) AS cents,
       avg(weight) AS weight, min(user) AS low, max(weight) AS heavy, bool_or(cents > 190) AS any_dear,
       bool_and(cents > 5) AS all_dear, stddev_samp(weight) AS spread, var_pop(cents) AS variance,
       first(user) AS earliest, last(user) AS latest, min_by(user, cents) AS cheapest, max_by(user, cents) AS dearest,
       any_value(user) AS one, collect_set(user) AS names, approx_count_distinct(user) AS about,
       approx_percentile(cents, 0.5) AS middle, approx_percentile(weight, 0.99, 1000) AS tail,
       sum(cents) FILTER (WHERE user LIKE 'u1%') AS ones
"""
_ITERATED = """
SELECT e.user AS node, min(least(coalesce(r.label, e.product), e.product)) AS label
FROM clicks e LEFT JOIN last_result r ON e.product = r.node
GROUP BY e.user, window(ts, '20 seconds', '10 seconds')
"""
_JOINED = """
SELECT s.product, s.n, w.most / s.n AS each
FROM job('shop/totals') s LEFT JOIN job('shop/top') w ON w.product = s.product
WHERE s.n > 1 ORDER BY s.n DESC, s.product
"""


def _job(name: str, query: str, **options: str | int) -> str:
    lines = [f"{option} = {json.dumps(value)}" for option, value in {"lateness": "2s", **options}.items()]
    return f'name = "{name}"\ncreator = "{CREATOR}"\nquery = """{query}"""\n[options]\n' + "\n".join(lines) + "\n"


class Window(NamedTuple):
    """The windows of a job, in ms of event time."""

    size_ms: int
    slide_ms: int


#: The jobs that count and sum all clicks by product.
COUNTED: Mapping[str, Window] = {
    "totals": Window(10_000, 10_000),
    "sliding": Window(30_000, 10_000),
    "spread": Window(10_000, 10_000),
    "mirrored": Window(10_000, 10_000),
    "voided": Window(10_000, 10_000),
    "least": Window(10_000, 10_000),
    "most": Window(10_000, 10_000),
}
#: Those of which a crash, or a leap, may lose some, and of which it may count some twice.
LOSING, REPEATING = ("most", "voided"), ("least",)
_STATUS = "SELECT status, method, count(*) AS n, sum(bytes) AS bytes"
_COUNTS = "SELECT product, count(*) AS n, sum(cents) AS cents"
JOBS = {
    "totals": _job("totals", f"{_COUNTS}, min(cents) AS low, max(cents) AS high {_CLICKS}", replicas=2),
    "sliding": _job("sliding", f"{_COUNTS} FROM clicks GROUP BY product, window(ts, '30 seconds', '10 seconds')"),
    "spread": _job("spread", f"{_COUNTS} {_CLICKS}", trees=2),
    "mirrored": _job("mirrored", f"{_COUNTS} {_CLICKS}", straggler="mirror", replicas=2),
    "least": _job("least", f"{_COUNTS} {_CLICKS}", semantics="at-least-once"),
    "most": _job("most", f"{_COUNTS} {_CLICKS}", semantics="at-most-once", straggler="drop"),
    "voided": _job("voided", f"{_COUNTS} {_CLICKS}", straggler="void"),
    "kinds": _job("kinds", f"{_KINDS} {_CLICKS}"),
    "top": _job("top", f"SELECT product, max(cents) AS most {_CLICKS} ORDER BY most DESC, product LIMIT 3", feedback=3),
    "ever": _job("ever", "SELECT product, count(*) AS n, sum(cents) AS cents FROM clicks GROUP BY product"),
    "sided": _job("sided", f"SELECT count(*) AS n FROM clicks GROUP BY {_WINDOW}", availability="partial"),
    "changed": _job("changed", f"{_COUNTS} {_CLICKS}"),
    "longer": _job("longer", f"SELECT count(*) AS n FROM clicks GROUP BY {_WINDOW}"),
    "paused": _job("paused", f"{_COUNTS} {_CLICKS}"),
    "stopped": _job("stopped", f"{_COUNTS} {_CLICKS}"),
    "iterated": _job("iterated", _ITERATED),
    "status": _job("status", f"{_STATUS} FROM site GROUP BY status, method, {_WINDOW}"),
    "joined": _job("joined", _JOINED),
}  # fmt: skip


def query_of(job: str) -> str:
    """Return the query of a job."""
    return str(tomllib.loads(JOBS[job])["query"])


def settings(folder: pathlib.Path, name: str) -> AgentConfig:
    """Return the settings of an agent whose data and logs are in a folder of its name."""
    logs = folder / name / "logs"
    columns = {"product": "STRING", "user": "STRING", "cents": "BIGINT", "weight": "DOUBLE"}
    return AgentConfig(
        agent=AgentSection(name=name, data=str(folder / name / "data")),
        overlay=OverlaySection(
            bind="127.0.0.1:0",
            advertise=ADDRESSES[name],
            join=[address for other, address in ADDRESSES.items() if other != name],
        ),
        sources={
            "clicks": SourceConfig(path=str(logs / "clicks.log"), columns=columns),
            "site": SourceConfig(path=str(logs / "site.log"), format="combined"),
        },
    )


def click(rng: random.Random, ts_ms: int) -> Click:
    """Draw an event."""
    return {
        "ts": ts_ms,
        "product": rng.choice(PRODUCTS),
        "user": f"u{rng.randint(1, 40)}",
        "cents": rng.randint(1, 200),
        "weight": round(rng.uniform(0, 3), 3),
    }


def visit(rng: random.Random, ts_ms: int) -> str:
    """Draw a line of an access log."""
    at = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(ts_ms // 1000))
    status, size = rng.choice((200, 200, 304, 404, 500)), rng.randint(0, 9_999)
    method = rng.choice(("GET", "GET", "POST"))
    request = f"{method} /p/{rng.randint(1, 5)}?q=1 HTTP/1.1"
    return f'192.0.2.{rng.randint(1, 9)} - - [{at}] "{request}" {status} {size} "-" "test"'


def sums(events: Sequence[Click], start_ms: int, end_ms: int) -> Sums:
    """Count and sum clicks of a half-open span of time by product, as the jobs of `COUNTED` do."""
    found: Sums = {}
    for event in events:
        if start_ms <= event["ts"] < end_ms:
            n, cents = found.get(event["product"], (0, 0))
            found[event["product"]] = (n + 1, cents + event["cents"])
    return found


def told_sums(rows: list[dict[str, Any]]) -> Sums:
    """Return what the rows of such a job say."""
    return {row["product"]: (row["n"], row["cents"]) for row in rows}


class Traffic:
    """What happens at the agents: lines in their logs, and pushes."""

    def __init__(self, folder: pathlib.Path, seed: int, clicks: Sequence[Click] = ()) -> None:
        self.folder = folder
        #: All clicks that ever were, with the agent that has each.
        self.clicks = list(clicks)
        self.rng = random.Random(seed)

    def log(self, name: str, ts_ms: int) -> None:
        """Have a web server write a line of a moment into each of its logs."""
        logs = self.folder / name / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        with (logs / "clicks.log").open("ab") as file:
            file.write(self.pushed(name, ts_ms))
        with (logs / "site.log").open("a") as file:
            file.write(visit(self.rng, ts_ms) + "\n")

    def pushed(self, name: str, ts_ms: int) -> bytes:
        """Return a click of a moment as a line."""
        made = click(self.rng, ts_ms)
        self.clicks.append({**made, "agent": name})
        return json.dumps(made).encode() + b"\n"

    def junk(self, name: str) -> bytes:
        """Have a web server write a line that is none; return some more to be pushed."""
        with (self.folder / name / "logs" / "site.log").open("a") as file:
            file.write("what is this\n")
        return "".join(line + "\n" for line in JUNK).encode()

    def rotate(self, name: str) -> None:
        """Rotate the access log of an agent away."""
        log = self.folder / name / "logs" / "site.log"
        log.rename(log.with_name("site.log.1"))
