"""Measure a real agent over a log that lies there: archive, store and redaction on, beside DuckDB in the same run.

The agent is a process as people run it, all its settings as shipped. Its CPU seconds (user and system, all threads) are
counted from the publish on until it has read everything and rests: parsing, windows, checkpoints, archive, and the
master's part are all in them, its start is not. DuckDB's are those of its whole process less those of a run over 1,000
lines. They take turns and must give the same rows; figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import ingest  # noqa: E402
from ending import end_in_order  # noqa: E402
from queries import QUERIES, WINDOW_MS  # noqa: E402

import elf  # noqa: E402
from tests.system.cluster import AgentProcess, wait_until  # noqa: E402

DEADLINE_S = 600.0
#: An agent that uses less than this share of a core for a second rests.
REST_S, REST_SHARE = 1.0, 0.05
#: What the issue "Lines and values that cannot lie" asks of a real agent, M lines per CPU second.
WANTED = {"paths": 0.8, "count": 1.1, "topk": 1.4}
RSS_BYTES_MAX = 200 * 1000 * 1000


@dataclass(frozen=True)
class Cost:
    """What an agent took for a log."""

    cpu_s: float
    rss_bytes: int


def read_once(
    query: str, log: pathlib.Path, lines: int, folder: pathlib.Path, expected: list[list[object]], window: str
) -> Cost:
    """Let a new agent read a log for one job until it answers a window as expected and rests; returns the cost."""
    asked = QUERIES[query]
    source = {"path": str(log), "format": asked.format}
    text = f'name = "job"\ncreator = "bench"\nquery = """{asked.sql.replace("FROM log", "FROM lines")}"""\n'
    agent = AgentProcess(folder, "web1", {"lines": source}, join=[])
    try:
        agent.start()
        assert agent.process is not None
        pid = agent.process.pid
        before_s = cpu_s(pid)
        with elf.connect(agent.url) as client:
            client.publish(text=text)

            def is_done() -> bool:
                # Questions cost, too: few are asked.
                is_read = rests(pid) and agent.counters("lines").get("read", 0) >= lines
                return is_read and [list(row.values()) for row in client.query("job", window).rows] == expected

            wait_until(is_done, f"the agent rests, and answers {query} as DuckDB does", DEADLINE_S)
        cost = Cost(cpu_s(pid) - before_s, peak_bytes(pid))
        ends = agent.counters("lines")
        assert ends["parsed"] == lines, ends
    finally:
        agent.stop()
    return cost


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process so far, of all its threads."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rests(pid: int) -> bool:
    """Watch a process for a moment; tell whether it had next to nothing to do."""
    before_s = cpu_s(pid)
    time.sleep(REST_S)
    return cpu_s(pid) - before_s < REST_SHARE * REST_S


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024


def measure(query: str, lines: int, rounds: int) -> bool:
    """Measure one query in turns with DuckDB and print; tells whether what is wanted was reached."""
    (log,) = ingest.made(query, lines)
    few = ingest.few_lines(log)
    costs: list[Cost] = []
    peer_s: list[float] = []
    for _ in range(rounds):
        start, _ = ingest.run("duckdb", query, few)
        whole, text = ingest.run("duckdb", query, log)
        peer_s.append(whole.cpu_s - start.cpu_s)
        expected, window = json.loads(text), "latest"
        if "window(" in QUERIES[query].sql:
            start_ms = expected[len(expected) // 2][0]
            expected = [row[1:] for row in expected if row[0] == start_ms]
            window = f"{start_ms}/{start_ms + WINDOW_MS}"
        with tempfile.TemporaryDirectory(prefix="elf-bench-") as folder:
            cost = read_once(query, log, lines, pathlib.Path(folder), expected, window)
        costs.append(cost)
    rate = lines / statistics.median(cost.cpu_s for cost in costs) / 1e6
    peer = lines / statistics.median(peer_s) / 1e6
    rss_bytes = max(cost.rss_bytes for cost in costs)
    print(
        f"{query}: {rate:.2f} M lines per CPU second (wanted: {WANTED[query]}), DuckDB {peer:.2f}: "
        f"{rate / peer:.2f} x; peak memory {rss_bytes / 1e6:.0f} MB (wanted: {RSS_BYTES_MAX / 1e6:.0f})"
    )
    return rate >= WANTED[query] and rss_bytes <= RSS_BYTES_MAX


def main() -> None:
    """Run the benchmark; exit 1 if it falls short of what is wanted."""
    end_in_order()
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="scripts/bench agent", description=main.__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", nargs="+", choices=sorted(WANTED), default=list(WANTED))
    args = parser.parse_args()
    ingest.compile_packages()
    sys.exit(not all([measure(query, args.lines, args.rounds) for query in args.queries]))


if __name__ == "__main__":
    main()
