"""How soon a running job is another one on many agents: the paper's Figure 10b with real processes on loopback.

Starts agents as processes, each with a log that gets a line an interval, and publishes one job. *Notified*: its master
multicasts, and an application at each agent notes when it heard; all clocks are this machine's. *Counts everywhere*:
from the question, asked of any agent at any moment of an interval, until the first interval begins that all agents
count by the new version: one that heard of it too late is named in the label of that interval's result, and then the
next one counts. Versions begin with the second boundary ahead, so of that time up to two intervals are chosen.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import random
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ending import end_in_order
from fleet import ROOT, START_S, AgentProcess, fleet, wait_until

import elf
from elf.agents.extensions.signed.signatures import KEY_BYTES, public_key

JOB = """
name = "update"
creator = "bench"
query = '''{query}'''
[options]
lateness = "0s"
application = "bell"
"""
QUERY = """
SELECT product, count(*) AS n FROM sold WHERE cents <> {cents} GROUP BY product, window(ts, '{ms} milliseconds')
"""
#: Comes with the job, signed, about as large as it may be.
FUNCTION = """
[functions.keeps]
args = ["BIGINT"]
returns = "BOOLEAN"
source = "def keeps(cents): return cents != {cents}  # {filling}"
"""
FUNCTION_BYTES = 16_000
#: Rings at all agents when its master is asked to; each tells by a datagram how long that took.
BELL = """
import os, socket, time
import elf

class Bell(elf.Application):
    def on_route(self, asker, number):
        self.elf.multicast([number, time.time_ns()])
        return number

    def on_multicast(self, message):
        if self.elf.role != "agent":
            return
        took_ns = time.time_ns() - message[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bell:
            bell.sendto(b"%d %d" % (message[0], took_ns), ("127.0.0.1", int(os.environ["BELL_PORT"])))
"""
KEY, KEY_FILE = "bench/update", "bench.key"
WAIT_S = 60.0
#: Intervals in a row that have to lack nobody before anything is measured.
SETTLED = 5


def install(folder: pathlib.Path) -> None:
    """Put the application into a folder as pip would leave it."""
    info = folder / "bell-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bell\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[elf.applications]\nbell = bell:Bell\n")
    (folder / "bell.py").write_text(BELL)


def fleet_with_bells(
    folder: pathlib.Path, count: int, port: int
) -> contextlib.AbstractContextManager[list[AgentProcess]]:
    """Run agents with a log each and the application."""
    apps = folder / "apps"
    install(apps)

    def sources(number: int) -> dict[str, dict[str, Any]]:
        log = folder / f"sold-{number}.log"
        log.touch()
        return {"sold": {"path": str(log), "columns": {"product": "STRING", "cents": "BIGINT"}}}

    before = ["env", f"PYTHONPATH={ROOT}{os.pathsep}{apps}", f"BELL_PORT={port}"]
    return fleet(folder, count, sources, before, trusted={"bench": public_key(make_key(folder))})


def make_key(folder: pathlib.Path) -> bytes:
    """Make a key to sign functions with, and a file of it."""
    secret = os.urandom(KEY_BYTES)
    (folder / KEY_FILE).write_text(secret.hex())
    (folder / KEY_FILE).chmod(0o600)
    return secret


@contextlib.contextmanager
def selling(folder: pathlib.Path, count: int, interval_ms: int) -> Iterator[None]:
    """Write a line an interval to each agent's log."""
    ended = threading.Event()

    def write() -> None:
        with contextlib.ExitStack() as stack:
            logs = [stack.enter_context((folder / f"sold-{number}.log").open("ab", 0)) for number in range(count)]
            while not ended.wait(interval_ms / 1_000):
                line = {"ts": time.time_ns() // 1_000_000, "product": "x", "cents": -1}
                for log in logs:
                    log.write(json.dumps(line).encode() + b"\n")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()


def notified(client: elf.Client, bell: socket.socket, agents: int, number: int) -> list[float]:
    """Have the master multicast; return after how many ms each agent has heard, ascending."""
    client.route(KEY, number)
    heard = list[float]()
    while len(heard) < agents:
        told, took_ns = map(int, bell.recv(100).split())
        heard += [took_ns / 1e6] if told == number else []
    return sorted(heard)


class Effective(NamedTuple):
    """After how many ms all agents counted by a version, how many of these were chosen, how many agents were late."""

    ms: float
    chosen_ms: int
    late: int


def effective(
    agents: Sequence[AgentProcess], interval_ms: int, change: Callable[[elf.Client], elf.Version]
) -> Effective:
    """Change the job, asking any agent at any moment of an interval."""
    with elf.connect(random.choice(agents).url) as client:
        time.sleep(random.uniform(2, 4) * interval_ms / 1_000)
        asked_ms = time.time_ns() / 1e6
        made = change(client)
        assert made.since_ms is not None
        late, start_ms = 0, made.since_ms
        while True:
            end_ms = start_ms + interval_ms
            wait_until(lambda end_ms=end_ms: _through_ms(client) >= end_ms, "it is counted", WAIT_S)
            missing = client.query(KEY, f"{start_ms}/{end_ms}").completeness.missing
            late = late or len(missing)
            if not missing:
                return Effective(start_ms - asked_ms, made.since_ms - made.made_ms, late)
            start_ms = end_ms


def tell(what: str, spent: Sequence[float], wanted: str) -> None:
    """Print a row."""
    mean = sum(spent) / len(spent)
    print(f"| {what} ({len(spent)} times) | {mean:.1f} | {max(spent):.1f} | {wanted} |")


def measure(
    agents: Sequence[AgentProcess], bell: socket.socket, times: int, interval_ms: int, key: pathlib.Path
) -> None:
    """Publish the job, change it, and print the figures beside the paper's."""
    query = QUERY.format(cents=0, ms=interval_ms)
    with elf.connect(agents[0].url) as client:
        client.publish(text=JOB.format(query=query))
        wait_until(lambda: _settled(client, len(agents), interval_ms), "all agents are in the results", START_S)
        heard = [notified(client, bell, len(agents), number) for number in range(times + 1)][1:]
        lag_ms = time.time_ns() / 1e6 - _through_ms(client)
    print(f"{len(agents)} agents, intervals of {interval_ms} ms, results {lag_ms:.0f} ms behind the clock\n")
    print("| ms | mean | most | the paper |\n|---|---|---|---|")
    tell("all agents are notified", [each[-1] for each in heard], "10")
    tell("half of them", [each[len(each) // 2] for each in heard], "-")
    changes: list[tuple[str, Callable[[elf.Client], elf.Version], str]] = [
        ("another filter", _filter(query, times), "210"),
        ("a reset", lambda client: client.reset(KEY), "210"),
        ("a function", _function(query, times, key), "600"),
    ]
    for what, change, wanted in changes:
        found = [effective(agents, interval_ms, change) for _ in range(times)]
        tell(f"{what} counts everywhere", [each.ms for each in found], wanted)
        tell("- of it, until the second boundary", [each.chosen_ms for each in found], "200")
        late = sum(each.late for each in found)
        print(f"| - agents that heard of it too late, of {times} x {len(agents)} | {late} | | - |")


def _filter(query: str, times: int) -> Callable[[elf.Client], elf.Version]:
    numbers = iter(range(1, times + 1))
    return lambda client: client.update(KEY, query=query.replace("cents <> 0", f"cents <> {next(numbers)}"))


def _function(query: str, times: int, key: pathlib.Path) -> Callable[[elf.Client], elf.Version]:
    numbers, calling = iter(range(1, times + 1)), JOB.format(query=query.replace("cents <> 0", "keeps(cents)"))

    def change(client: elf.Client) -> elf.Version:
        function = FUNCTION.format(cents=next(numbers), filling="x" * FUNCTION_BYTES)
        return client.update(KEY, text=calling + function, key=key)

    return change


def _settled(client: elf.Client, agents: int, interval_ms: int) -> bool:
    """Tell whether the last intervals lack nobody, after the rush of the start."""
    with contextlib.suppress(elf.UnavailableError):
        through_ms = client.job(KEY)["through_ms"] or 0
        window = f"{through_ms - SETTLED * interval_ms}/{through_ms}"
        label = client.query(KEY, window).completeness if through_ms else None
        return label is not None and (label.expected, label.status) == (agents, "final")
    return False


def _through_ms(client: elf.Client) -> int:
    with contextlib.suppress(elf.UnavailableError):
        return int(client.job(KEY)["through_ms"] or 0)
    return 0


def main() -> None:
    """Measure how soon all agents are told of something, and how soon they count by another version of a job."""
    end_in_order()
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="scripts/bench update", description=main.__doc__)
    parser.add_argument("--agents", type=int, default=64)
    parser.add_argument("--times", type=int, default=10, help="multicasts, and changes of each kind; 10 at most")
    parser.add_argument("--interval", type=int, default=100, metavar="MS", help="length of the job's intervals")
    args = parser.parse_args()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bell,
        tempfile.TemporaryDirectory(prefix="elf-update-") as name,
    ):
        bell.bind(("127.0.0.1", 0))
        bell.settimeout(WAIT_S)
        folder = pathlib.Path(name)
        with (
            fleet_with_bells(folder, args.agents, bell.getsockname()[1]) as agents,
            selling(folder, args.agents, args.interval),
        ):
            measure(agents, bell, args.times, args.interval, folder / KEY_FILE)


if __name__ == "__main__":
    main()
