"""An agent whose settings change again and again while its logs are written and it is killed: each line counts once.

`scripts/reloads [--reloads N] [--kills N] [--lines N] [--seed N]`; the test beside this takes few. A third of the
changes is broken; sources are added, removed, read by other paths, formats and privacy settings.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from typing import Any

import elf
from elf.agents.errors import ConfigError, UnavailableError
from tests.system.cluster import AgentProcess, running, wait_until

JOB = """
name = "told"
creator = "shop"
query = "SELECT count(*) AS n, count(DISTINCT i) AS d, sum(i) AS s, min(i) AS lo, max(i) AS hi FROM ev"
[columns]
i = "BIGINT"
[options]
interval = "1s"
"""
#: Two logs, of which an agent may follow either, both, or none.
LOGS = ("a.log", "b.log")
_BROKEN = ("[sources.ev\n", "[overlay]\nk = 7\n", '[sources.more]\nformat = "jsn"\n', "[agent]\nnam = 1\n")
_OF_ALL = "[ab].log"


class Writer(threading.Thread):
    """Writes numbered lines to both logs until all are written, at a steady pace."""

    def __init__(self, folder: pathlib.Path, lines: int, seconds: float, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self._folder, self._lines, self._rng = folder, lines, rng
        self._pause_s = seconds / max(1, lines / 20)

    def run(self) -> None:
        """Write."""
        for first in range(0, self._lines, 20):
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            numbers = range(first, min(first + 20, self._lines))
            lines = "".join(json.dumps({"ts": at, "i": number}) + "\n" for number in numbers)
            with (self._folder / self._rng.choice(LOGS)).open("a") as log:
                log.write(lines)
            time.sleep(self._pause_s)


def reload_often(
    folder: pathlib.Path, *, reloads: int, kills: int, lines: int, seed: int
) -> tuple[dict[str, Any], Counter[str]]:
    """Change an agent's settings so often; return the last result's row, and what became of the changes.

    Raises:
        AssertionError: a broken change was taken, another one refused, or files stay open.
    """
    rng, told = random.Random(seed), Counter[str]()
    for log in LOGS:
        (folder / log).touch()
    agent = AgentProcess(folder, "web1", {"ev": _settings(folder, rng)}, [])
    file = folder / "web1.toml"
    kill_at = set(rng.sample(range(reloads), kills))
    with running([agent]), elf.connect(agent.url, timeout=60) as client:
        client.publish(text=JOB)
        writer = Writer(folder, lines, 0.2 * reloads, random.Random(seed))
        writer.start()
        for number in range(reloads):
            if number in kill_at:
                agent.kill()
                agent.start()
                told["kills"] += 1
            sources = {"ev": _settings(folder, rng)} if rng.random() < 0.8 else {}
            sources |= {"other": {"path": str(folder / "other.log")}} if rng.random() < 0.3 else {}
            good = file.read_text()
            agent.configure(sources, [])
            if rng.random() < 1 / 3:
                _write(file, _broken(file.read_text(), rng.choice(_BROKEN)))
                _change(agent, client, told, is_broken=True)
                _write(file, good)  # or it could not be started again
            else:
                _change(agent, client, told, is_broken=False)
            time.sleep(rng.uniform(0, 0.2))
        writer.join()
        agent.configure({"ev": {"path": str(folder / _OF_ALL), "format": "json"}}, [])
        _change(agent, client, told, is_broken=False)

        def row() -> dict[str, Any]:
            with contextlib.suppress(UnavailableError):
                result = client.query("shop/told")
                return dict(result.rows[0]) if result.rows else {}
            return {}

        wait_until(lambda: row().get("n", 0) >= lines, lambda: f"all are counted: {row()}", 120)
        time.sleep(3)  # what would count twice had time to
        assert agent.process is not None
        told["descriptors"] = len(os.listdir(f"/proc/{agent.process.pid}/fd"))
        return row(), told


def _settings(folder: pathlib.Path, rng: random.Random) -> dict[str, Any]:
    """Draw settings of a source that count the same events."""
    path = folder / rng.choice([*LOGS, _OF_ALL])
    found: dict[str, Any] = {"path": str(path), "format": rng.choice(("json", ["json"]))}
    if rng.random() < 0.3:
        found["privacy"] = {"drop": ["unheard"]}
    if rng.random() < 0.3:
        found["columns"] = {"i": "BIGINT"}
    return found


def _broken(text: str, how: str) -> str:
    return text + how if how.startswith("[sources") else text.replace(how.partition("\n")[0], how.rstrip("\n"), 1)


def _write(file: pathlib.Path, text: str) -> None:
    fresh = file.with_name(file.name + ".new")
    fresh.write_text(text)
    fresh.replace(file)


def _change(agent: AgentProcess, client: elf.Client, told: Counter[str], *, is_broken: bool) -> None:
    """Have the settings read, by either way, and hold what came of it to what had to."""
    try:
        client.reload()
    except ConfigError:
        assert is_broken, "refused, and nothing is wrong with it"
    else:
        assert not is_broken, "taken, though it is broken"
    assert agent.process is not None
    agent.process.send_signal(signal.SIGHUP)  # says the same once more
    found = agent.get("/readyz")
    assert bool(found["notes"]) == is_broken, found
    told["refused" if is_broken else "taken"] += 1


def wanted(lines: int) -> dict[str, int]:
    """Return the row of lines that were counted once each."""
    return {"n": lines, "d": lines, "s": lines * (lines - 1) // 2, "lo": 0, "hi": lines - 1}


def main() -> int:
    """Change settings as often as was asked for; return 1 if a line was lost or counted twice."""
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="scripts/reloads", description=__doc__)
    parser.add_argument("--reloads", type=int, default=500, metavar="N")
    parser.add_argument("--kills", type=int, default=20, metavar="N")
    parser.add_argument("--lines", type=int, default=100_000, metavar="N")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), metavar="N")
    asked = parser.parse_args()
    print(f"scripts/reloads {' '.join(f'--{name} {value}' for name, value in vars(asked).items())}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        found, told = reload_often(pathlib.Path(folder), **vars(asked))
    is_right = found == wanted(asked.lines)
    print(f"{found}, {dict(told)}: {'each once' if is_right else 'WRONG'}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
