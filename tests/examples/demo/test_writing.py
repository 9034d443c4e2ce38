"""The logs of examples are written live, whole lines only, until the writer is told to end."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import time

import msgspec
import pytest


@pytest.mark.parametrize(
    ("module", "fields"),
    [
        ("examples.social_spam.posts", {"ts", "account", "link"}),
        ("examples.product_bundling.orders", {"ts", "order", "product", "other"}),
    ],
)
def test_lines_are_of_this_moment_and_whole_when_it_ends(tmp_path: pathlib.Path, module: str, fields: set[str]) -> None:
    log, began_ms = tmp_path / "log", time.time_ns() // 1_000_000
    command = [sys.executable, "-m", module, "--live", "--rate", "500", "--seed", "3", "--out", str(log)]
    with subprocess.Popen(command) as writer:
        deadline = time.monotonic() + 30
        while not log.exists() or log.stat().st_size < 5_000:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        writer.send_signal(signal.SIGTERM)
        assert writer.wait(30) == 0
    lines = [msgspec.json.decode(line) for line in log.read_bytes().splitlines()]
    assert log.read_bytes().endswith(b"\n") and all(set(line) == fields for line in lines)
    times = [line["ts"] for line in lines]
    assert times == sorted(times) and began_ms <= times[0] <= times[-1] <= time.time_ns() // 1_000_000
