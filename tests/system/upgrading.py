"""Agents of two releases in one cluster, upgraded one by one under load, and back: no window is wrong or unnamed.

`scripts/upgrades [--before COMMIT] [--agents N] [--rounds N] [--seed N]`. The release before is built from a commit.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import elf
from tests.system.cluster import AgentProcess, make_agents, running, wait_until
from tests.system.ticking import SIZE_MS, TEXT, Counts, counts, query, through_ms, ticking, wall_ms, windows

#: The last commit of release 0.1: its greeting has no range of versions.
BEFORE = "25783fa5"
_ROOT = pathlib.Path(__file__).parents[2]
#: Between two lines of one log.
_PAUSE_S = 0.05


def build(commit: str, folder: pathlib.Path) -> pathlib.Path:
    """Build a release from a commit, kernels included; returns the folder to be put on Python's path."""
    sources, installed = folder / "sources", folder / "installed"
    sources.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=_ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(sources)], input=archive, check=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed), str(sources)]
    subprocess.run(pip, check=True)
    return installed


class Watch(threading.Thread):
    """Asks for the newest windows all the time, and keeps what it was told of those that were said to be complete.

    Args:
        agents: who is asked; a client asks the next one where one is away.
        since_ms: windows before that are not looked at: somebody was not there yet.
    """

    def __init__(self, agents: list[AgentProcess], since_ms: int) -> None:
        super().__init__(daemon=True)
        self.complete: dict[int, Counts] = {}
        self.asked = 0
        self.failure: BaseException | None = None
        self._urls, self._since_ms = [agent.url for agent in agents], since_ms
        self._ended = threading.Event()

    def run(self) -> None:
        """Ask until the end; what fails beyond what a client tries again is left in `failure`."""
        try:
            with elf.connect(self._urls) as client:
                while not self._ended.wait(0.3):
                    through = through_ms(client)
                    for start_ms in range(max(self._since_ms, through - 3 * SIZE_MS), through, SIZE_MS):
                        result = query(client, start_ms)
                        self.asked += 1
                        if result.completeness.complete:
                            self.complete[start_ms] = counts(result)
        except BaseException as error:
            self.failure = error

    def end(self) -> None:
        """Stop asking, and raise what went wrong."""
        self._ended.set()
        self.join()
        if self.failure is not None:
            raise self.failure


def roll(agents: list[AgentProcess], release: pathlib.Path | None, client: elf.Client, rng: random.Random) -> None:
    """Run another release on each agent, one after another; some are stopped, some killed. None: this release.

    Before the next one all take part again, whatever their release: a window that began later is complete.
    """
    for agent in rng.sample(agents, len(agents)):
        agent.kill() if rng.random() < 0.4 else agent.stop()
        time.sleep(rng.uniform(0, 1.5))
        agent.before = [] if release is None else ["env", f"PYTHONPATH={release}"]
        agent.start()
        again_ms = wall_ms()
        wait_until(
            lambda at_ms=again_ms: through_ms(client) - SIZE_MS > at_ms and _newest(client).completeness.complete,
            f"all take part after a change of {agent.name}",
        )


@contextlib.contextmanager
def _writing(logs: list[pathlib.Path]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for log in logs:
            stack.enter_context(ticking(log, pause_s=_PAUSE_S))
        yield


def upgrade(folder: pathlib.Path, before: pathlib.Path, number: int, rng: random.Random, *, back: bool = True) -> str:
    """Upgrade a cluster under load, and take it back if `back`; returns what was seen.

    Raises:
        AssertionError: a window was said to be complete and was not, or did not become so.
    """
    logs = [folder / f"{place}.log" for place in range(number)]
    for log in logs:
        log.touch()
    agents = make_agents(folder, [{"ticks": {"path": str(log), "format": "json"}} for log in logs])
    for agent in agents:
        agent.before = ["env", f"PYTHONPATH={before}"]
    with running(agents), _writing(logs), elf.connect([agent.url for agent in agents]) as client:
        client.publish(text=TEXT)
        wait_until(lambda: through_ms(client), "a first commit")
        wait_until(lambda: _newest(client).completeness.complete, "all take part")
        watch = Watch(agents, through_ms(client))
        watch.start()
        roll(agents, None, client, rng)
        if back:
            roll(agents, before, client, rng)
        last_ms = through_ms(client)
        watch.end()
        truth = windows(*logs)
        wrong = {start_ms for start_ms, rows in watch.complete.items() if rows != truth[start_ms]}
        assert not wrong, f"{len(wrong)} of {len(watch.complete)} windows that were said to be complete were not"
        looked_at = [start_ms for start_ms in truth if watch.complete and min(watch.complete) <= start_ms < last_ms]
        wait_until(
            lambda: all(counts(query(client, start_ms)) == truth[start_ms] for start_ms in looked_at),
            "all that was missing is counted",
        )
    share = len(watch.complete) / len(looked_at)
    return f"{len(looked_at)} windows, {share:.0%} complete at once, asked {watch.asked} times, none wrong"


def _newest(client: elf.Client) -> elf.Result:
    return query(client, through_ms(client) - SIZE_MS)


def main() -> None:
    """Upgrade clusters and take them back, again and again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default=BEFORE, help="the commit that the release before is built from")
    parser.add_argument("--agents", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        before = build(options.before, folder / "before")
        for place in range(options.seed, options.seed + options.rounds):
            made = folder / f"round-{place}"
            made.mkdir()
            print(f"seed {place}: {upgrade(made, before, options.agents, random.Random(place))}", flush=True)


if __name__ == "__main__":
    main()
