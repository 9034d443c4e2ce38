"""Count fifty million events with real agents, one of them away for a while, and let Spark judge every window.

Then a cell of a stored result and an event of an archive are changed, as by somebody who can write to the disks and
knows our checksums: the verification has to name both. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import elf
from elf.agent_url import LONG_TIMEOUT_S
from elf.agents.errors import UnavailableError
from elf.offline.verify.report import Report as Verification
from elf.offline.verify.run import run_verify
from tests.system.cluster import AgentProcess, wait_until
from tests.system.proof.shop import JOBS, MINUTE_MS, PEOPLE, SOURCE, TOP, Job, Size, make_shop, write_logs
from tests.system.proof.tampering import change_cell, change_event

#: Part of the time that is counted when an agent is killed, and when it comes back.
KILLED_AT, BACK_AT = 0.4, 0.6
#: Nothing here takes so long without getting further.
DEADLINE_S = 3_600.0
#: How long before the first event the jobs are published.
BACK_MINUTES = 15


@dataclass
class Report:
    """What a proof came to: figures to print, and everything that should not be."""

    figures: list[tuple[str, object]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, name: str, value: object) -> None:
        """Note a figure."""
        self.figures.append((name, value))

    def table(self) -> list[str]:
        """Return the figures, a line each."""
        return [f"{name:24} {value}" for name, value in self.figures]


def play(size: Size, folder: pathlib.Path, master: str, say: Callable[[str], None] = print) -> Report:
    """Play one proof in a folder."""
    report = Report()
    agents = make_shop(folder, size.agents, BACK_MINUTES + size.minutes)
    with contextlib.ExitStack() as stack:
        for agent in agents:
            stack.callback(agent.stop)
        _start_again(agents)
        _publish(agents)
        # What they miss while they are down, they catch up with: hours in minutes, as after a power cut.
        for agent in agents:
            agent.stop()
            agent.before = []
        with _timed(report, "logs written"):
            logs = write_logs(folder, size)
        megabytes = sum(log.stat().st_size for log in logs) >> 20
        say(f"{size.lines * size.agents} events in {megabytes} MiB of logs; counting")
        with _timed(report, "counted"), elf.connect(agents[0].url) as client:
            _start_again(agents)
            _count(client, agents, size, say)
        _check_counters(agents, size, report)
        archives = [agent.archive for agent in agents]
        for job in JOBS:
            long = elf.connect(agents[0].url, timeout=LONG_TIMEOUT_S)
            with _timed(report, f"{job.name}: verified in"), long as client:
                verification = run_verify(client, job.key, (), archives, master, since=str(size.start_ms))
            _judge(job, verification, report)
            say(f"{job.name} is verified")
        _tamper(agents, size, master, report)
    return report


def _publish(agents: list[AgentProcess]) -> None:
    """Publish all jobs, and wait until all agents are expected by each."""
    with elf.connect(agents[0].url) as client:
        for job in JOBS:
            client.publish(text=job.text)
        for job in JOBS:
            what = f"all are expected by {job.name}"
            wait_until(lambda job=job: len(client.job(job.key)["roster"]) == len(agents), what)  # type: ignore[misc]


def _start_again(agents: list[AgentProcess]) -> None:
    """Start all agents at once: each of them is ready when its jobs' masters are, which need a majority of them."""
    for agent in agents:
        agent.launch()
    for agent in agents:
        wait_until(agent.ready, f"{agent.name} runs again", 300)


def _count(client: elf.Client, agents: list[AgentProcess], size: Size, say: Callable[[str], None]) -> None:
    """Let the agents count everything, one of them away in the middle."""
    victim = agents[-1]
    _wait_for_part(client, TOP, size, KILLED_AT)
    victim.kill()
    say(f"{victim.name} is killed")
    _wait_for_part(client, TOP, size, BACK_AT)
    victim.start()
    say(f"{victim.name} is back")
    for agent in agents:
        wait_until(_reading(agent, size), f"{agent.name} reads its log", DEADLINE_S)
        say(f"{agent.name} has read its log")
    for job in JOBS:
        _wait_for_part(client, job, size, 1)
        for end_ms in range(size.start_ms + job.size_ms, size.until_ms + 1, job.slide_ms):
            # What was dropped does not come any more.
            if job.straggler == "late":
                window = f"{end_ms - job.size_ms}/{end_ms}"
                wait_until(_completing(client, job, window), f"{job.name} {window} is complete", DEADLINE_S)
        say(f"{job.name} is counted")


def _wait_for_part(client: elf.Client, job: Job, size: Size, part: float) -> None:
    def is_through() -> bool:
        with contextlib.suppress(UnavailableError):
            through_ms = client.job(job.key)["through_ms"] or 0
            return bool(through_ms >= size.start_ms + part * (size.until_ms - size.start_ms))
        return False

    wait_until(is_through, f"{job.name} is counted up to {part:.0%}", DEADLINE_S)


def _reading(agent: AgentProcess, size: Size) -> Callable[[], bool]:
    return lambda: agent.counters(SOURCE).get("read", 0) >= size.lines


def _completing(client: elf.Client, job: Job, window: str) -> Callable[[], bool]:
    def is_complete() -> bool:
        with contextlib.suppress(UnavailableError):
            return client.query(job.key, window, limit=1).completeness.complete
        return False

    return is_complete


def _check_counters(agents: list[AgentProcess], size: Size, report: Report) -> None:
    for agent in agents:
        ends = agent.counters(SOURCE)
        read = ends.pop("read")
        if read != size.lines or read != sum(ends.values()):
            report.wrong.append(f"{agent.name} read {read} lines of {size.lines}, which ended as {ends}")


def _judge(job: Job, verification: Verification, report: Report) -> None:
    """Note what a verification says, and what is wrong with it."""
    windows = [window for window in verification.windows if not window.skipped]
    differences = [difference for window in windows for difference in window.differences]
    unexplained = [difference for window in windows for difference in window.unexplained]
    report.add(f"{job.name}: windows", f"{len(windows)} compared, {len(verification.windows) - len(windows)} skipped")
    report.add(f"{job.name}: rows", sum(window.rows_online for window in windows))
    report.add(f"{job.name}: agreed", sum(window.agrees for window in windows))
    report.add(
        f"{job.name}: differences",
        f"{len(differences)}, explained by their labels {len(differences) - len(unexplained)}",
    )
    for window in windows:
        if window.unexplained:
            report.wrong.append(f"{job.name} {window.name} {window.label}: {window.unexplained[:3]}")
        if not window.label and not window.agrees:
            report.wrong.append(f"{job.name} {window.name} differs though its label says that it is complete")
    report.wrong += [f"{job.name}: {what}" for what in (*verification.damaged, *verification.gaps)]


def _tamper(agents: list[AgentProcess], size: Size, master: str, report: Report) -> None:
    """Change a cell and an event, and see that both are named."""
    for agent in agents:
        agent.stop()
    # Not the first and not the last window, which no agent may have counted from its begin or to its end.
    length_ms = PEOPLE.size_ms
    cell_ms = size.start_ms + (size.until_ms - size.start_ms) // length_ms // 2 * length_ms
    event_ms = cell_ms - length_ms
    user, copies = change_cell([agent.data for agent in agents], PEOPLE.name, cell_ms // length_ms)
    event = change_event(agents[1].archive, SOURCE, event_ms, event_ms + length_ms)
    _start_again(agents)
    report.add("tampered", f"{user}'s count in {copies} copies; the price of an event of {event.user} in {event.file}")
    windows = [f"{begin_ms}/{begin_ms + length_ms}" for begin_ms in (event_ms, cell_ms)]
    with elf.connect(agents[0].url) as client:
        verification = run_verify(client, PEOPLE.key, windows, [agent.archive for agent in agents], master)
    by_event, by_cell = (window.unexplained for window in verification.windows)
    report.add("found", f"{[str(each) for each in (*by_cell, *by_event)]}")
    if [(each.key, each.column, each.online) for each in by_cell] != [({"user": user}, "n", by_cell[0].offline + 1)]:
        report.wrong.append(f"the changed cell of {user} was to be found, and nothing else: {by_cell}")
    if [(each.key, each.column, each.online) for each in by_event] != [
        ({"user": event.user}, "cents", by_event[0].offline + 1)
    ]:
        report.wrong.append(f"the changed event of {event.user} was to be found, and nothing else: {by_event}")
    elif not any(event.file in file for file in by_event[0].files):
        report.wrong.append(f"{event.file} was to be named: {by_event[0].files}")


@contextlib.contextmanager
def _timed(report: Report, name: str) -> Iterator[None]:
    began_s = time.monotonic()
    yield
    report.add(name, f"{time.monotonic() - began_s:.0f} s")


def main(argv: Sequence[str] | None = None) -> int:
    """Play what the command line asks for; returns 1 if anything was wrong."""
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="scripts/proof", description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=50_000_000, help="over all agents (default 50,000,000)")
    parser.add_argument("--minutes", type=int, default=120, help="of event time; a multiple of 10, 60 at least")
    parser.add_argument("--agents", type=int, default=5, help="how many (default 5)")
    parser.add_argument("--users", type=int, default=1_000_000, help="keys of the wide job (default 1,000,000)")
    parser.add_argument("--master", default="local[*]", help="Spark's master")
    parser.add_argument("--keep", action="store_true", help="keep the folder though nothing was wrong")
    chosen = parser.parse_args(argv)
    if chosen.minutes < 60 or chosen.minutes % 10:
        parser.error(f"--minutes is {chosen.minutes}; use a multiple of 10, 60 at least")
    if chosen.agents < 2 or chosen.users < 1 or chosen.events < 1_000 * chosen.agents:
        parser.error("at least 2 agents, 1 user and 1,000 events an agent are needed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="elf-proof-"))
    # From the next window after the jobs' publication on.
    now_ms = time.time_ns() // 1_000_000 - chosen.minutes * MINUTE_MS
    start_ms = now_ms // (10 * MINUTE_MS) * 10 * MINUTE_MS
    size = Size(chosen.events, chosen.minutes, chosen.agents, chosen.users, start_ms)
    report = play(size, folder, chosen.master, lambda line: print(line, flush=True))
    print("\n".join(report.table()))
    if report.wrong:
        print("\n".join(report.wrong[:50]))
    if report.wrong or chosen.keep:
        print(f"logs, agents' folders and messages: {folder}")
        return int(bool(report.wrong))
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
