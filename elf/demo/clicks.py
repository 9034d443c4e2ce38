"""A seeded click stream of a small shop, as NDJSON lines of about 320 bytes.

Owns the draw of events and their rendering; the catalogue is `elf.demo.shop`. The same seed gives the same lines
in the same order on every machine; only `--live` replaces their times by the wall clock. Lines are drawn a block at a
time, so the first n lines do not depend on how many are asked for.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from elf.demo.shop import USER_AGENTS, catalogue

BLOCK_LINES = 16_384
#: SQL types of what a line says of its event, beside `ts`, `ip` and `user_agent`.
COLUMNS = {
    "event": "STRING",
    "category": "STRING",
    "product": "STRING",
    "user": "STRING",
    "session": "STRING",
    "price_cents": "BIGINT",
    "quantity": "BIGINT",
    "path": "STRING",
}
EVENTS = ("view", "click", "like", "buy")
EVENT_SHARES = (0.45, 0.40, 0.10, 0.05)
USERS = 50_000
#: Visitors who are not logged in: `user` is null.
ANONYMOUS_SHARE = 0.05
#: 2026-01-01T00:00:00Z, the first time of a stream that is not live.
START_MS = 1_767_225_600_000
#: How often a live stream writes: small beside any window, large beside the cost of a write.
TICK_MS = 100


class ClickStream:
    """Draws the shop's events for one seed; the caller says when each line is written.

    Args:
        seed: equal seeds draw equal events.
        out_of_order_share: share of lines that carry a time before that of their neighbours.
        out_of_order_ms_max: by how much at most.
        users: how many people there are.
    """

    def __init__(
        self, seed: int, out_of_order_share: float = 0.01, out_of_order_ms_max: int = 5_000, users: int = USERS
    ) -> None:
        self._users = users
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._share = out_of_order_share
        self._ms_max = out_of_order_ms_max
        self._products = catalogue()
        self._parts = _render_products(self._products)
        self._agents = pl.Series([f'"user_agent":{json.dumps(agent)}}}' for agent in USER_AGENTS])
        self._block = self._draw()
        self._used = 0

    def take(self, written_ms: pl.Series) -> bytes:
        """Return the next lines, one per time in `written_ms` (int ms, ascending; at most `BLOCK_LINES`)."""
        count = len(written_ms)
        if self._used + count > self._block.height:
            self._block = pl.concat([self._block.slice(self._used), self._draw()])
            self._used = 0
        rows = self._block.slice(self._used, count).with_columns(at=written_ms)
        self._used += count
        at = pl.from_epoch(pl.col("at") - pl.col("delay_ms"), time_unit="ms").dt.to_string("%Y-%m-%dT%H:%M:%S%.3fZ")
        lines = rows.select(pl.concat_str(pl.lit('{"ts":"'), at, pl.lit('",'), "rest").str.join("\n"))
        return (str(lines.item()) + "\n").encode()

    def _draw(self) -> pl.DataFrame:
        """Draw one block of events: `rest`, the line after its time, and `delay_ms`, how much the time lies back."""
        rng, n = self._rng, BLOCK_LINES
        product = rng.choice(len(self._products), n, p=self._products["share"].to_numpy())
        event = rng.choice(len(EVENTS), n, p=EVENT_SHARES)
        # Squaring leans towards low numbers: some people come back far more often than others.
        user = (rng.random(n) ** 2 * self._users).astype(np.int64)
        quantity = np.where(event == EVENTS.index("buy"), 1 + rng.geometric(0.7, n).clip(1, 9), 1)
        late = rng.random(n) < self._share
        delay_ms = np.where(late, rng.integers(1, self._ms_max + 1, n), 0)
        frame = pl.DataFrame(
            {
                "delay_ms": delay_ms,
                "event": pl.Series(EVENTS).gather(event),
                "head": self._parts["head"].gather(product),
                "tail": self._parts["tail"].gather(product),
                "agent": self._agents.gather(user % len(USER_AGENTS)),
                "quantity": quantity,
                "visit": rng.integers(0, 1 << 24, n),
                "number": user,
                "anonymous": rng.random(n) < ANONYMOUS_SHARE,
            }
        )
        padded = pl.col("number").cast(pl.String).str.zfill(6)
        parts = (
            pl.lit('"event":"'),
            "event",
            pl.lit('",'),
            "head",
            pl.lit('"user":'),
            pl.when("anonymous").then(pl.lit("null")).otherwise(pl.concat_str(pl.lit('"u'), padded, pl.lit('"'))),
            pl.lit(',"session":"s'),
            pl.col("visit").cast(pl.String).str.zfill(8),
            pl.lit('","quantity":'),
            "quantity",
            pl.lit(',"ip":"198.51.'),
            pl.col("number") // 250 % 200,
            pl.lit("."),
            pl.col("number") % 250 + 1,
            pl.lit('",'),
            "tail",
            "agent",
        )
        return frame.select("delay_ms", rest=pl.concat_str(*parts))


def generate(
    seed: int,
    count: int,
    start_ms: int,
    rate_per_s: float,
    out_of_order_share: float = 0.01,
    out_of_order_ms_max: int = 5_000,
    users: int = USERS,
) -> Iterator[bytes]:
    """Yield `count` lines in chunks of whole lines; line i is written at `start_ms` plus i seconds over the rate.

    Its event time is that instant, except for the out-of-order share, whose times lie up to `out_of_order_ms_max` back.
    """
    stream = ClickStream(seed, out_of_order_share, out_of_order_ms_max, users)
    for first in range(0, count, BLOCK_LINES):
        lines = np.arange(first, min(first + BLOCK_LINES, count))
        yield stream.take(pl.Series(start_ms + (lines * 1_000 / rate_per_s).astype(np.int64)))


def write_live(stream: ClickStream, path: Path, rate_per_s: float, count: int | None, stop: threading.Event) -> int:
    """Append lines at the given rate, timed now, until stopped or `count` are written; return how many were."""
    began_ms = time.time_ns() // 1_000_000
    written = 0
    # Unbuffered: each tick is one write of whole lines, so a reader meets half a line only where the kernel splits it.
    with path.open("ab", buffering=0) as out:
        while not stop.is_set() and (count is None or written < count):
            due = int((time.time_ns() // 1_000_000 - began_ms) * rate_per_s / 1_000)
            due = min(due, written + BLOCK_LINES, due if count is None else count)
            if due > written:
                at = began_ms + (np.arange(written, due) * 1_000 / rate_per_s).astype(np.int64)
                out.write(stream.take(pl.Series(at)))
                written = due
            stop.wait(TICK_MS / 1_000)
    return written


def main() -> None:
    """Write a click stream to a file: live until stopped, or `--count` lines at once."""
    of = "python -m elf.demo.clicks"
    parser = argparse.ArgumentParser(allow_abbrev=False, prog=of, description=main.__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=500, help="events per second of event time (default 500)")
    parser.add_argument("--out", type=Path, required=True, help="file to append to")
    parser.add_argument("--count", type=int, help="stop after this many lines; without --live, write them at once")
    parser.add_argument("--live", action="store_true", help="pace by the wall clock (default without --count)")
    parser.add_argument("--start-ms", type=int, default=START_MS, help="first event time of a stream that is not live")
    args = parser.parse_args()
    if args.rate <= 0 or (args.count is not None and args.count < 0):
        parser.error("--rate must be above 0 and --count at least 0")
    if not args.out.parent.is_dir():
        parser.error(f"--out {args.out}: there is no folder {args.out.parent}")
    if args.live or args.count is None:
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        written = write_live(ClickStream(args.seed), args.out, args.rate, args.count, stop)
    else:
        written = args.count
        with args.out.open("ab") as out:
            for chunk in generate(args.seed, args.count, args.start_ms, args.rate):
                out.write(chunk)
    print(f"{written} lines written to {args.out}", file=sys.stderr)


def _render_products(products: pl.DataFrame) -> pl.DataFrame:
    """Render what all events of a product share, in two parts: head up to the price, tail with its page."""
    return pl.DataFrame(
        [
            (
                f'"category":{_text(category)},"product":{_text(product)},"price_cents":{price_cents},',
                f'"path":"/shop/{slug}",',
            )
            for category, product, slug, price_cents in products.drop("share").rows()
        ],
        schema=["head", "tail"],
        orient="row",
    )


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
