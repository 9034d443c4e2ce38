"""A log that grows by one event every few milliseconds, and what its windows must hold."""

from __future__ import annotations

import collections
import contextlib
import json
import pathlib
import threading
import time
from collections.abc import Callable, Iterator

import elf

SIZE_MS = 1_000
JOB = "shop/ticks"
TEXT = f"""
name = "ticks"
creator = "shop"
query = '''
SELECT kind, count(*) AS n, sum(number) AS total
FROM ticks GROUP BY kind, window(ts, '{SIZE_MS} milliseconds')
'''
[columns]
kind = "STRING"
number = "BIGINT"
[options]
lateness = "500 ms"
"""
Counts = dict[str, tuple[int, int]]


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


@contextlib.contextmanager
def ticking(log: pathlib.Path, now_ms: Callable[[], int] = wall_ms, pause_s: float = 0.01) -> Iterator[None]:
    """Write events, dated now and numbered, until the block ends."""
    stop = threading.Event()

    def write() -> None:
        number = 0
        with log.open("a", buffering=1) as file:
            while not stop.wait(pause_s):
                number += 1
                file.write(json.dumps({"ts": now_ms(), "kind": "ab"[number % 2], "number": number}) + "\n")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def windows(*logs: pathlib.Path) -> dict[int, Counts]:
    """Return what each window must hold, computed line by line."""
    found: dict[int, Counts] = collections.defaultdict(dict)
    for log in logs:
        for line in log.read_text().splitlines():
            event = json.loads(line)
            window = found[event["ts"] // SIZE_MS * SIZE_MS]
            count, total = window.get(event["kind"], (0, 0))
            window[event["kind"]] = count + 1, total + event["number"]
    return found


def query(client: elf.Client, start_ms: int) -> elf.Result:
    return client.query(JOB, window=f"{start_ms}/{start_ms + SIZE_MS}")


def counts(result: elf.Result) -> Counts:
    return {row["kind"]: (row["n"], row["total"]) for row in result.rows}


def wrong(client: elf.Client, expected: dict[int, Counts]) -> list[int]:
    """Return the windows that are not closed yet, or do not hold what they must."""
    results = {start_ms: query(client, start_ms) for start_ms in expected}
    return [
        start_ms
        for start_ms, result in results.items()
        if result.completeness.status == "open" or counts(result) != expected[start_ms]
    ]


def through_ms(client: elf.Client) -> int:
    """Return how far the job is committed; 0 while nobody can say."""
    try:
        return int(client.job(JOB)["through_ms"] or 0)
    except elf.UnavailableError:
        return 0
