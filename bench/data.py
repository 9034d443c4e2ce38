"""The benchmark's input files: seeded, made once, kept in a folder that git ignores."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from elf.demo.clicks import START_MS, USERS, generate  # noqa: E402

FOLDER = ROOT / ".bench"
SEED = 7
RATE_PER_S = 5_000
_BLOCK_LINES = 100_000
_AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36",
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
    "curl/8.5.0",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
)


def clicks(lines: int, users: int = USERS) -> Path:
    """Return an NDJSON file of the shop's click stream, some 320 bytes a line, 1 % of it out of order."""
    of = "" if users == USERS else f"-{users}"
    chunks = generate(SEED, lines, START_MS, RATE_PER_S, users=users)
    return _made(f"clicks-{SEED}-{RATE_PER_S}-{lines}{of}.ndjson", chunks)


def access(lines: int) -> Path:
    """Return a `combined` log, some 200 bytes a line; one request in a thousand is garbage."""
    return _made(f"access-{SEED}-{RATE_PER_S}-{lines}.log", _combined(lines))


def _made(name: str, chunks: Iterator[bytes]) -> Path:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n")
    path = FOLDER / name
    if not path.exists():
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            file.writelines(chunks)
        part.replace(path)
    return path


def _combined(lines: int) -> Iterator[bytes]:
    rng = np.random.Generator(np.random.PCG64(SEED))
    start = datetime.datetime.fromtimestamp(START_MS / 1_000, datetime.UTC).replace(tzinfo=None)
    for first in range(0, lines, _BLOCK_LINES):
        n = min(_BLOCK_LINES, lines - first)
        page = (rng.zipf(1.3, n) % 500).astype(np.int64)
        target = pl.concat_str(pl.lit("/p/item-"), "page", pl.lit("?ref="), "ref")
        garbage = rng.random(n) < 0.001
        yield (
            pl.select(
                at=pl.lit(start) + pl.duration(seconds=pl.int_range(first, first + n) // RATE_PER_S),
                host=pl.Series(rng.integers(1, 250, n)),
                page=pl.Series(page),
                ref=pl.Series(rng.integers(0, 40, n)),
                method=pl.Series(["GET", "GET", "GET", "POST"]).gather(rng.integers(0, 4, n)),
                status=pl.Series([200, 200, 200, 304, 404, 500]).gather(rng.integers(0, 6, n)),
                size=pl.Series(rng.integers(0, 60_000, n)),
                agent=pl.Series(_AGENTS).gather(rng.integers(0, len(_AGENTS), n)),
                garbage=pl.Series(garbage),
            )
            .select(
                line=pl.concat_str(
                    pl.lit("203.0.113."),
                    "host",
                    pl.lit(" - - ["),
                    pl.col("at").dt.strftime("%d/%b/%Y:%H:%M:%S +0000"),
                    pl.lit('] "'),
                    pl.when("garbage")
                    .then(pl.lit(r"\x16\x03\x01\x00\xEE"))
                    .otherwise(pl.concat_str("method", pl.lit(" "), target, pl.lit(" HTTP/1.1"))),
                    pl.lit('" '),
                    "status",
                    pl.lit(" "),
                    "size",
                    pl.lit(' "https://shop.example/list?page='),
                    "ref",
                    pl.lit('" "'),
                    "agent",
                    pl.lit('"\n'),
                )
            )["line"]
            .str.join("")
            .item()
            .encode()
        )
