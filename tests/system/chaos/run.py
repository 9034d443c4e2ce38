"""Kill, stop and deafen real agents while they count, and hold every answer to the truth: `scripts/chaos --kills 200`.

A run's faults, and what its readers ask, follow from its seed; what they meet, the machine decides. Exit code 1 when
anything is wrong; then the folder with logs, messages and answers is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import math
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tests.system.chaos.fleet import Fleet, get, running
from tests.system.chaos.judge import Promise, Verdict, judge
from tests.system.chaos.plan import draw
from tests.system.chaos.traffic import (
    IN_TIME_MS,
    JOBS,
    LATE_KIND,
    LATE_ORIGIN,
    LATENESS_MS,
    Job,
    Notebook,
    Reader,
    Writer,
    ask,
    compute_truth,
    count_archived,
    dump,
)
from tests.system.cluster import wait_until

#: After the last fault everything has to become exact; for this long it may look as if nothing got better.
SETTLE_S = 90.0
START_S = 120.0
PROGRESS_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One run."""

    agents: int = 12
    events: int = 1_000_000
    kills: int = 200
    minutes: float = 10.0
    seed: int = 1
    leap_after_s: float = 5.0
    #: Share of the events that come late on purpose, and of those that come just in time.
    late: float = 0.0

    def again(self) -> str:
        """Return the command that repeats it."""
        return (
            f"scripts/chaos --agents {self.agents} --events {self.events} --kills {self.kills} "
            f"--minutes {self.minutes:g} --seed {self.seed} --leap-after {self.leap_after_s:g} "
            f"--late {self.late:g}"
        )


@dataclass
class Report:
    """What a run came to."""

    settings: Settings
    fleet: Fleet
    notebook: Notebook
    verdict: Verdict
    written: int
    delay_ms_max: int
    settled_s: float
    #: What was not as it should be when we gave up waiting.
    unsettled: list[str]
    #: Closed windows that readers saw while faults went on.
    seen: int

    @property
    def wrong(self) -> list[str]:
        """Everything that should not be, a sentence each."""
        counts = self.notebook.errors.items()
        errors = [f"answered {count} times: {what}" for what, count in counts if what[0].isdigit()]
        crashed = [f"crashed: {what}" for what in self.fleet.crashed]
        return [*self.verdict.wrong, *crashed, *errors, *self.unsettled]

    @property
    def log(self) -> list[str]:
        """What happened to whom, and the last thing each agent said."""
        said = [
            f"{member.name}: {line}"
            for member in self.fleet.members
            for line in member.agent.messages().splitlines()[-3:]
        ]
        return [*self.fleet.log, *said]

    def table(self) -> list[str]:
        """Return the figures, a line each."""
        done, verdict, unanswered = self.fleet.done, self.verdict, self.notebook.errors
        lines: list[tuple[str, object]] = [
            ("events", self.written),
            ("kills", f"{done['kill']}, of them {done['kill of a master']} of masters"),
            ("stops", f"{done['stop of 3 s']} of 3 s, {done['stop of 30 s']} of 30 s"),
            ("cuts", done["cut"] if self.fleet.on_hosts else "0: no network namespaces here"),
            ("answers", self.notebook.count),
            ("no answer", f"{unanswered['unavailable']} times; {unanswered['agent away']} times the agent was away"),
            ("windows checked", f"{verdict.windows}, {self.seen} of them seen while faults went on"),
            ("always exact", verdict.exact),
            ("labelled incomplete", verdict.incomplete),
            ("corrected later", verdict.corrected),
            ("dropped, as told", verdict.dropped),
            ("settled after", "never" if self.unsettled else f"{self.settled_s:.1f} s"),
            ("longest write", f"{self.delay_ms_max} ms"),
            ("wrong", len(self.wrong)),
        ]
        return [f"{name:20} {value}" for name, value in lines]


def play(settings: Settings, folder: pathlib.Path, say: Callable[[str], None] = print) -> Report:
    """Play one run in a folder."""
    duration_s = settings.minutes * 60
    notebook = Notebook()
    with running(folder, settings.agents) as fleet, contextlib.ExitStack() as stack:
        _publish(fleet, settings)
        say(f"{settings.agents} agents work on {len(JOBS)} jobs, masters {sorted(set(fleet.masters.values()))}")
        logs = [member.log for member in fleet.members]
        writer = Writer(logs, settings.events, duration_s, settings.late, settings.seed)
        since_ms = time.time_ns() // 1_000_000
        readers = [Reader(fleet, member, notebook, since_ms, settings.seed) for member in fleet.members]
        stack.enter_context(_at_work([writer, *readers]))
        stack.enter_context(_progress(fleet, notebook, writer, say))
        try:
            fleet.weather(draw(settings.seed, settings.kills, duration_s), duration_s, threading.Event())
        finally:
            fleet.heal()
        writer.join(duration_s)
        for reader in readers:
            reader.stop.set()
        promises = {job.name: _promise(job, logs) for job in JOBS}
        seen = sum(answer.status != "open" for answer in notebook.last.values())
        began_s = time.monotonic()
        unsettled = _settle(fleet, notebook, promises)
        settled_s = time.monotonic() - began_s
        fleet.stop()
        archived = count_archived([member.agent.archive for member in fleet.members])
    in_time_ms = LATENESS_MS - (IN_TIME_MS if settings.late else 0)
    verdict = judge(promises, notebook.answers, late=writer.delay_ms_max >= in_time_ms)
    if archived != (writer.written, writer.written):
        verdict.wrong.append(f"the archives hold {archived[0]} events, {archived[1]} of them distinct")
    dump(folder / "answers.ndjson", notebook.answers)
    (folder / "faults.txt").write_text("\n".join(fleet.log) + "\n")
    return Report(settings, fleet, notebook, verdict, writer.written, writer.delay_ms_max, settled_s, unsettled, seen)


def _promise(job: Job, logs: Sequence[pathlib.Path]) -> Promise:
    by_agent = job.key == "origin"
    late_keys = {f"{log.stem}{LATE_ORIGIN}" for log in logs} if by_agent else {str(LATE_KIND)}
    return Promise(compute_truth(job, logs), by_agent, job.straggler == "drop", frozenset(late_keys), LATE_ORIGIN)


def _publish(fleet: Fleet, settings: Settings) -> None:
    """Publish the jobs and wait until every agent works on all of them."""
    first, names = fleet.members[0], sorted(member.name for member in fleet.members)

    def all_ready() -> None:
        for member in fleet.members:
            wait_until(functools.partial(member.call, member.agent.ready), f"{member.name} is ready", START_S)

    def publish(job: Job) -> str:
        body = msgspec.json.encode({"definition": job.text(settings.leap_after_s)})
        request = urllib.request.Request(first.agent.url + "/v1/jobs", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return str(msgspec.json.decode(answer.read())["master"])

    def all_enlisted(job: Job) -> bool:
        return bool(get(first, job.path)["roster"] == names)

    all_ready()
    for job in JOBS:
        fleet.masters[job.name] = first.call(functools.partial(publish, job))
    for job in JOBS:
        enlisted = functools.partial(all_enlisted, job)
        wait_until(functools.partial(first.call, enlisted), f"all are on the roster of {job.name}", START_S)
    all_ready()


def _settle(fleet: Fleet, notebook: Notebook, promises: Mapping[str, Promise]) -> list[str]:
    """Ask until every window is right and every agent ready; return what was not when patience ended."""
    better_s, best = time.monotonic(), -math.inf
    left = [(job, start_ms) for job in JOBS for start_ms in promises[job.name].truth]
    turns = itertools.cycle(fleet.members)
    while time.monotonic() - better_s < SETTLE_S:
        still = []
        for job, start_ms in left:
            member = next(turns)
            answer = member.call(functools.partial(ask, fleet, notebook, member, job, start_ms))
            if answer is None or not promises[job.name].is_kept(answer):
                still.append((job, start_ms))
        left = still
        fleet.look()
        ready = sum(member.call(member.agent.ready) for member in fleet.members)
        if not left and ready == len(fleet.members):
            return []
        if ready - len(left) > best:
            better_s, best = time.monotonic(), ready - len(left)
        time.sleep(0.5)
    reasons = {member.name: member.call(member.agent.get_reasons) for member in fleet.members}
    unready = [f"{name} is not ready: {'; '.join(why)}" for name, why in reasons.items() if why]
    windows = [f"{job.name} [{start_ms})" for job, start_ms in left]
    return [f"{len(left)} windows do not become right: {', '.join(windows[:9])}", *unready]


@contextlib.contextmanager
def _at_work(threads: Sequence[Writer | Reader]) -> Iterator[None]:
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.stop.set()
        for thread in threads:
            thread.join(30)


@contextlib.contextmanager
def _progress(fleet: Fleet, notebook: Notebook, writer: Writer, say: Callable[[str], None]) -> Iterator[None]:
    done, began_s = threading.Event(), time.monotonic()

    def speak() -> None:
        while not done.wait(PROGRESS_S):
            kinds = ", ".join(f"{fleet.done[kind]} {kind}s" for kind in ("kill", "stop", "cut"))
            say(f"{time.monotonic() - began_s:5.0f} s: {writer.written} events, {kinds}, {notebook.count} answers")

    thread = threading.Thread(target=speak, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def main(argv: Sequence[str] | None = None) -> int:
    """Play what the command line asks for; returns 1 if anything was wrong."""
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="scripts/chaos", description=__doc__.partition("\n")[0])
    defaults = Settings()
    parser.add_argument("--agents", type=int, default=defaults.agents)
    parser.add_argument("--events", type=int, default=defaults.events, help="numbered events, over all agents")
    parser.add_argument("--kills", type=int, default=defaults.kills, help="kill -9; stops and cuts come in proportion")
    parser.add_argument("--minutes", type=float, default=defaults.minutes, help="how long events and faults go on")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--leap-after", type=float, default=defaults.leap_after_s, metavar="S", help="the jobs' option")
    parser.add_argument("--late", type=float, default=defaults.late, help="share of events that come late on purpose")
    parser.add_argument("--keep", action="store_true", help="keep the folder though nothing was wrong")
    chosen = parser.parse_args(argv)
    for option in ("agents", "events", "kills", "minutes", "leap_after"):
        if getattr(chosen, option) <= 0:
            parser.error(f"--{option.replace('_', '-')} is {getattr(chosen, option)}; it has to be above 0")
    settings = Settings(
        agents=chosen.agents,
        events=chosen.events,
        kills=chosen.kills,
        minutes=chosen.minutes,
        seed=chosen.seed,
        leap_after_s=chosen.leap_after,
        late=chosen.late,
    )
    # Whoever ends us ends the agents and namespaces, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="elf-chaos-"))
    print(f"again: {settings.again()}", flush=True)
    report = play(settings, folder, lambda line: print(line, flush=True))
    print("\n".join(report.table()))
    if report.wrong:
        print("\n".join([*report.wrong[:50], *report.log]))
        print(f"logs, messages and answers: {folder}")
        return 1
    if chosen.keep:
        print(f"logs, messages and answers: {folder}")
    else:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
