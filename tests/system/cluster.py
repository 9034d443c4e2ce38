"""Real agents for tests: separate processes on loopback, found through their API, ended by their process ids."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.ports import free_port

DEADLINE_S = 60.0


def wait_until(condition: Callable[[], Any], what: str | Callable[[], str], deadline_s: float = DEADLINE_S) -> Any:
    """Wait for a condition to give something true and return it; fail loudly when it does not in time.

    Most conditions ask an agent, and that takes what the agents need themselves: the longer it lasts the less often.
    """
    begin = time.monotonic()
    while (waited_s := time.monotonic() - begin) < deadline_s:
        value = condition()
        if value:
            return value
        time.sleep(min(0.02 + waited_s / 20, 0.2))
    raise AssertionError(f"not in {deadline_s} s: {what if isinstance(what, str) else what()}")


class AgentProcess:
    """One agent and its folder; may be killed and started again.

    `before` is put in front of its command line at its next start (a network namespace, say), where `addresses`, of
    overlay and API, are its own; else it takes free ports on loopback. `archive` are settings of its archive,
    `trusted` the creators whose functions it runs.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        name: str,
        sources: dict[str, dict[str, Any]],
        join: list[str],
        overlay: dict[str, Any] | None = None,
        joins: bool = True,
        before: Sequence[str] = (),
        addresses: tuple[str, str] | None = None,
        archive: dict[str, Any] | None = None,
        trusted: dict[str, str] | None = None,
    ) -> None:
        self.name, self.folder, self.joins, self.before = name, folder, joins, list(before)
        self.overlay, self.api = addresses or (f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}")
        self.url = f"http://{self.api}"
        self.data = folder / name
        self.data.mkdir(parents=True, exist_ok=True)
        self.archive = self.data / "archive"
        self._config, self._archiving, self._trusted = folder / f"{name}.toml", archive or {}, trusted or {}
        self.configure(sources, join, overlay)
        self.process: subprocess.Popen[bytes] | None = None

    def configure(
        self, sources: dict[str, dict[str, Any]], join: list[str], overlay: dict[str, Any] | None = None
    ) -> None:
        """Write the agent's configuration; it holds from the next start on."""
        lines = [
            f'[agent]\nname = "{self.name}"\ndata = "{self.data}"',
            f'[overlay]\nbind = "{self.overlay}"\njoin = {json.dumps(join)}',
            *(f"{key} = {_toml(value)}" for key, value in (overlay or {}).items()),
            f'[api]\nbind = "{self.api}"',
        ]
        lines += ["[archive]", *(f"{key} = {_toml(value)}" for key, value in self._archiving.items())]
        lines += ["[functions]", f"trusted = {_toml(self._trusted)}"] if self._trusted else []
        for source, settings in sources.items():
            lines.append(f"[sources.{source}]")
            lines += [f"{key} = {_toml(value)}" for key, value in settings.items()]
        self._config.write_text("\n".join(lines) + "\n")

    def launch(self) -> None:
        """Start the process and do not wait."""
        log = (self.folder / f"{self.name}.err").open("ab")
        with log:
            self.process = subprocess.Popen(
                [*self.before, sys.executable, "-m", "elf", "agent", "--config", str(self._config)],
                stdout=log,
                stderr=log,
            )

    def start(self) -> None:
        self.launch()
        wait_until(self.ready if self.joins else self.get_reasons, f"agent {self.name} runs:\n{self.messages()}")

    def ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"agent {self.name} ended:\n{self.messages()}"
        try:
            return bool(self.get("/readyz")["ready"])
        except (OSError, urllib.error.HTTPError):
            return False

    def get_reasons(self) -> list[str]:
        """Return why the agent is not ready; empty when it is, or does not answer."""
        try:
            return list(self.get("/readyz")["reasons"])
        except urllib.error.HTTPError as error:
            return list(json.load(error)["reasons"])
        except OSError:
            return []

    def messages(self) -> str:
        path = self.folder / f"{self.name}.err"
        return path.read_text()[-4000:] if path.exists() else ""

    def kill(self) -> None:
        """kill -9: nothing is saved, nobody is told."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM: the agent saves and leaves."""
        self._end(signal.SIGTERM)

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=20) as answer:
            return json.load(answer)

    def counters(self, source: str) -> dict[str, int]:
        """Return where the source's lines ended, from /metrics."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=20) as answer:
            text = answer.read().decode()
        ends = {}
        for line in text.splitlines():
            if line.startswith(f'elf_lines_read_total{{source="{source}"}}'):
                ends["read"] = int(float(line.split()[-1]))
            elif line.startswith("elf_lines_total{") and f'source="{source}"' in line:
                end = line.split('end="')[1].split('"')[0]
                ends[end] = int(float(line.split()[-1]))
        return ends

    def metric(self, name: str) -> float:
        """Return a metric without labels."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))

    def _end(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, number)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        self.process = None


@contextlib.contextmanager
def running(agents: list[AgentProcess]) -> Iterator[list[AgentProcess]]:
    """Start agents one after another, and end them all whatever happens."""
    try:
        for agent in agents:
            agent.start()
        yield agents
    finally:
        for agent in agents:
            agent.stop()


def make_agents(
    folder: pathlib.Path, sources: list[dict[str, dict[str, Any]]], trusted: dict[str, str] | None = None
) -> list[AgentProcess]:
    """Make one agent per entry; all join through the first, and run functions of the creators that are trusted."""
    agents: list[AgentProcess] = []
    for number, settings in enumerate(sources, start=1):
        join = [agents[0].overlay] if agents else []
        agents.append(AgentProcess(folder, f"web{number}", settings, join, trusted=trusted))
    return agents


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {json.dumps(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)
