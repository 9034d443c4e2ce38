"""The click stream: one seed is one stream, lines are valid, and popularity is skewed as the demo promises."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from elf.demo.clicks import BLOCK_LINES, START_MS, generate
from elf.demo.shop import catalogue

COUNT = 2 * BLOCK_LINES + 1_000


@pytest.fixture(scope="module")
def lines() -> bytes:
    return b"".join(generate(7, COUNT, START_MS, 1_000))


@pytest.fixture(scope="module")
def events(lines: bytes) -> pl.DataFrame:
    return pl.read_ndjson(lines).with_columns(pl.col("ts").str.to_datetime("%Y-%m-%dT%H:%M:%S%.3fZ", time_unit="ms"))


def test_equal_seeds_give_equal_lines_and_others_do_not(lines: bytes) -> None:
    assert b"".join(generate(7, COUNT, START_MS, 1_000)) == lines
    assert b"".join(generate(8, COUNT, START_MS, 1_000)) != lines


def test_a_shorter_stream_is_the_beginning_of_a_longer_one(lines: bytes) -> None:
    assert lines.startswith(b"".join(generate(7, BLOCK_LINES + 5, START_MS, 1_000)))


def test_chunks_are_whole_lines_of_about_320_bytes(lines: bytes) -> None:
    assert lines.endswith(b"}\n") and lines.count(b"\n") == COUNT
    assert 300 < len(lines) / COUNT < 340


def test_shares_and_skew(events: pl.DataFrame) -> None:
    assert events.height == COUNT
    assert (events["category"] == "Video Games").mean() == pytest.approx(0.15, abs=0.01)
    assert set(events["event"].unique()) == {"view", "click", "like", "buy"}
    best = events.filter(category="Video Games")["product"].value_counts(sort=True)
    assert best["product"][0] == "Angry Birds"
    assert best["count"][0] > 8 * best["count"].to_numpy().mean()
    assert events["user"].null_count() > 0
    assert events.filter(pl.col("quantity") > 1)["event"].unique().to_list() == ["buy"]


def test_one_percent_is_out_of_order_by_at_most_five_seconds(events: pl.DataFrame) -> None:
    delay_ms = START_MS + pl.int_range(pl.len()) - pl.col("ts").dt.epoch("ms")
    delays = events.select(delay_ms.alias("ms"))["ms"]
    assert delays.min() == 0 and 4_900 < delays.max() <= 5_000  # type: ignore[operator]
    assert (delays > 0).mean() == pytest.approx(0.01, abs=0.002)


def test_order_can_be_kept() -> None:
    text = b"".join(generate(1, 5_000, START_MS, 100, out_of_order_share=0))
    assert pl.read_ndjson(text)["ts"].is_sorted()


def test_catalogue_is_a_distribution_over_distinct_products() -> None:
    products = catalogue()
    assert products["share"].sum() == pytest.approx(1)
    assert products.select("category", "product").n_unique() == products.height
    assert products["slug"].n_unique() == products.height


def test_live_stream_is_timed_now_and_ends_on_a_signal(tmp_path: Path) -> None:
    out = tmp_path / "clicks.log"
    began_ms = time.time() * 1_000
    process = subprocess.Popen(
        [sys.executable, "-m", "elf.demo.clicks", "--rate", "2000", "--out", str(out)], stderr=subprocess.PIPE
    )
    try:
        deadline = time.monotonic() + 30
        while not (out.exists() and out.stat().st_size > 100_000):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGTERM)
        _, said = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode == 0
    written = pl.read_ndjson(out)
    assert f"{written.height} lines".encode() in said
    last = written["ts"].str.to_datetime("%Y-%m-%dT%H:%M:%S%.3fZ").dt.epoch("ms").max()
    assert began_ms - 10_000 < last <= time.time() * 1_000  # type: ignore[operator]
