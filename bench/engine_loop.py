"""What a person writes in an afternoon: orjson (or `re`) and dicts; `engine_loop.py QUERY FILE` prints the result."""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections import defaultdict

import orjson
from queries import WINDOW_MS

_COMBINED = re.compile(
    rb'(\S+) \S+ (\S+) \[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d{3}|-) (\d+|-) "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"\n'
)
_REQUEST = re.compile(rb"\S+ ([^ ?]+)\S* HTTP/[0-9.]+")


def topk(path: str) -> list[list[object]]:
    """Count clicks and sum prices per product and window; the ten best of each."""
    groups: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    loads, parse = orjson.loads, datetime.datetime.fromisoformat
    with open(path, "rb") as file:
        for line in file:
            event = loads(line)
            if event["category"] == "Video Games" and event["event"] == "click":
                start = round(parse(event["ts"]).timestamp() * 1000) // WINDOW_MS * WINDOW_MS
                state = groups[start, event["product"]]
                state[0] += 1
                state[1] += event["price_cents"]
    ordered = sorted((start, -n, product, total) for (start, product), (n, total) in groups.items())
    return _best([[start, product, -n, total] for start, n, product, total in ordered])


def count(path: str) -> list[list[object]]:
    """Count events per product."""
    counts: dict[str, int] = defaultdict(int)
    loads = orjson.loads
    with open(path, "rb") as file:
        for line in file:
            counts[loads(line)["product"]] += 1
    return [[product, -n] for n, product in sorted((-n, product) for product, n in counts.items())]


def paths(path: str) -> list[list[object]]:
    """Count requests and sum bytes per path, status and window; the ten most of each."""
    groups: dict[tuple[int, bytes, int], list[int]] = defaultdict(lambda: [0, 0])
    times: dict[bytes, int] = {}
    with open(path, "rb") as file:
        for line in file:
            fields = _COMBINED.fullmatch(line)
            assert fields is not None
            _, _, at, request, status, size, _, _ = fields.groups()
            start = times.get(at)
            if start is None:
                moment = datetime.datetime.strptime(at.decode(), "%d/%b/%Y:%H:%M:%S %z")
                start = times[at] = int(moment.timestamp()) * 1000 // WINDOW_MS * WINDOW_MS
            parts = _REQUEST.fullmatch(request)
            state = groups[start, parts[1] if parts else b"", int(status)]
            state[0] += 1
            state[1] += int(size)
    ordered = sorted((start, -n, target, status, total) for (start, target, status), (n, total) in groups.items())
    return _best([[start, target.decode() or None, status, -n, total] for start, n, target, status, total in ordered])


def _best(rows: list[list[object]]) -> list[list[object]]:
    kept: dict[object, int] = defaultdict(int)
    best = []
    for row in rows:
        kept[row[0]] += 1
        if kept[row[0]] <= 10:
            best.append(row)
    return best


if __name__ == "__main__":
    json.dump({"topk": topk, "count": count, "paths": paths}[sys.argv[1]](sys.argv[2]), sys.stdout)
