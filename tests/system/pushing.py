"""Numbered events pushed over connections that die at random moments, to an agent that is killed: each counts once.

`scripts/pushes [--events N] [--kills N] [--batch N] [--pushers N] [--seed N]`; the test beside this takes few.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from typing import Any

import elf
from tests.system.cluster import AgentProcess, running, wait_until

JOB = """
name = "told"
creator = "shop"
query = "SELECT count(*) AS n, count(DISTINCT i) AS d, sum(i) AS s, min(i) AS lo, max(i) AS hi FROM ev"
[options]
interval = "1s"
"""
#: How connections end, and how often of a hundred: as they should; while the body is on its way; once it was sent.
ENDINGS = {"whole": 70, "cut": 15, "unanswered": 15}
_PATIENCE_S = 20.0


class Pusher(threading.Thread):
    """Pushes the events of a range, a batch at a time, until all were acknowledged.

    Args:
        agent: whom to.
        events: their numbers.
        batch: how many at a time.
        rng: draws keys, pauses, and how connections end.
        numbers: pushes are numbered, under the name of this thread; else each has a key of its own.
    """

    def __init__(self, agent: AgentProcess, events: range, batch: int, rng: random.Random, *, numbers: bool) -> None:
        super().__init__(daemon=True, name=f"pusher-{events.start}")
        self._numbers = numbers
        self._agent, self._events, self._batch, self._rng = agent, events, batch, rng
        self.endings = Counter[str]()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Push all; what goes wrong beyond what is meant to is left in `failure`."""
        try:
            for first in range(self._events.start, self._events.stop, self._batch):
                self._push(range(first, min(first + self._batch, self._events.stop)))
        except BaseException as error:
            self.failure = error

    def _push(self, events: range) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        lines = "".join(f'{{"ts":"{at}","i":{number}}}\n' for number in events).encode()
        key = f"{events.start}-{self._rng.getrandbits(64):x}"
        known = f"{self.name}\r\nPush-Serial: {events.start // self._batch}" if self._numbers else key
        head = (
            f"POST /v1/ingest/ev HTTP/1.1\r\nHost: {self._agent.api}\r\nContent-Type: application/x-ndjson\r\n"
            f"Idempotency-Key: {known}\r\nConnection: close\r\n"
            f"Content-Length: {len(lines)}\r\n\r\n"
        )
        while (status := self._try(head.encode() + lines)) != 200:
            if status is not None and status != 503:
                raise AssertionError(f"a push of {events} was answered {status}")
            time.sleep(self._rng.uniform(0, 0.05) if status is None else 0.2)

    def _try(self, request: bytes) -> int | None:
        """Send a push once, and return the status; None if the connection died, be it our doing or not."""
        [ending] = self._rng.choices([*ENDINGS], [*ENDINGS.values()])
        host, _, port = self._agent.api.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=_PATIENCE_S) as connection:
                if ending == "cut":
                    connection.sendall(request[: self._rng.randrange(len(request))])
                    return self._ended(ending)
                connection.sendall(request)
                if ending == "unanswered":
                    time.sleep(self._rng.choice((0, 0, 0.002, 0.01)))
                    return self._ended(ending)
                answer = b""
                while data := connection.recv(4096):
                    answer += data
        except OSError:
            return self._ended("refused")
        status = answer.partition(b" ")[2][:3]
        return int(status) if status.isdigit() and b"\r\n\r\n" in answer else self._ended("half an answer")

    def _ended(self, ending: str) -> None:
        self.endings[ending] += 1


def push_all(
    folder: pathlib.Path, *, events: int, kills: int, batch: int, pushers: int, seed: int
) -> tuple[dict[str, Any], Counter[str]]:
    """Push numbers from 0 on to one agent, which is killed so often meanwhile; return the last result's row, and how
    connections ended.

    Raises:
        AssertionError: a push was refused for good, or not all were counted in time.
    """
    rng = random.Random(seed)
    agent = AgentProcess(folder, "web1", {"ev": {"format": "json", "columns": {"i": "BIGINT"}}}, [])
    with running([agent]), elf.connect(agent.url, timeout=60) as client:
        client.publish(text=JOB)
        each = -(-events // pushers)
        threads = [
            Pusher(
                agent,
                range(first, min(first + each, events)),
                batch,
                random.Random(rng.getrandbits(64)),
                numbers=number % 2 == 1,
            )
            for number, first in enumerate(range(0, events, each))
        ]
        for thread in threads:
            thread.start()
        killed = 0
        while killed < kills or any(thread.is_alive() for thread in threads):
            if killed < kills:
                time.sleep(rng.uniform(0.1, 1.5))
                agent.kill()
                agent.start()
                killed += 1
            else:
                threads[0].join(0.5) if threads[0].is_alive() else time.sleep(0.1)
        for thread in threads:
            thread.join()
        failures = [thread.failure for thread in threads if thread.failure is not None]
        assert not failures, failures

        def row() -> dict[str, Any]:
            with contextlib.suppress(elf.UnavailableError):
                rows = client.query("shop/told").rows
                return dict(rows[0]) if rows else {}
            return {}

        wait_until(lambda: row().get("n", 0) >= events, lambda: f"all are counted: {row()}", 120)
        time.sleep(3)  # what would count twice had time to
        return row(), sum((thread.endings for thread in threads), Counter[str]())


def wanted(events: int) -> dict[str, int]:
    """Return the row of events that were counted once each."""
    return {"n": events, "d": events, "s": events * (events - 1) // 2, "lo": 0, "hi": events - 1}


def main() -> int:
    """Push as many as were asked for; return 1 if one was lost or counted twice."""
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="scripts/pushes", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--kills", type=int, default=50, metavar="N")
    parser.add_argument("--batch", type=int, default=500, metavar="N", help="events of a push")
    parser.add_argument("--pushers", type=int, default=8, metavar="N")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), metavar="N")
    asked = parser.parse_args()
    print(f"scripts/pushes {' '.join(f'--{name} {value}' for name, value in vars(asked).items())}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        found, endings = push_all(pathlib.Path(folder), **vars(asked))
    is_right = found == wanted(asked.events)
    print(f"{found}, connections that died: {dict(endings)}: {'each once' if is_right else 'WRONG'}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
