"""What the archive costs an agent: lines a second from a log to a job's open windows, with the archive and without.

One agent, as people run it, reads a click stream that lies there when the job is published, in turns with the archive
and without; CPU seconds are those of the whole process, threads and checkpoints included, medians of the rounds count.
Jobs take part in each line, so none is skipped unparsed either way. The archive has the columns that jobs read, and
those whose types the source declares: what is declared and read by nobody is parsed for the archive only. So there are
a job that reads all columns; one that reads three, where these or all are declared; and the three jobs of
`scripts/proof` at once, over a million users, which read five, where these or all are declared.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import data  # noqa: E402
from ending import end_in_order  # noqa: E402

import elf  # noqa: E402
from elf.demo.clicks import COLUMNS  # noqa: E402
from tests.system.cluster import AgentProcess, wait_until  # noqa: E402
from tests.system.proof.shop import JOBS  # noqa: E402

DEADLINE_S = 600.0
TEXT = """
name = "products"
creator = "bench"
query = '''
SELECT product, event, count(*) AS n, sum(price_cents) AS cents FROM clicks WHERE {where}
GROUP BY product, event, window(ts, '60 seconds')
'''
"""
_ALL, _THREE = (
    TEXT.format(where=" OR ".join(f"{name} IS NOT NULL" for name in names)) for names in (COLUMNS, ["event"])
)
_PROOF = [job.text for job in reversed(JOBS)]
_READ_BY_PROOF = [name for name in COLUMNS if any(name in text for text in _PROOF)]
#: What is measured: columns that the source declares, and jobs that are published together. What the first job says of
#: each line is always true: of those that come before all jobs are there, none is skipped either.
READS = {
    "a job that reads all columns": (list(COLUMNS), [_ALL]),
    "a job that reads three columns": (["product", "event", "price_cents"], [_THREE]),
    "a job that reads three columns, all are declared": (list(COLUMNS), [_THREE]),
    "the three jobs of scripts/proof": (_READ_BY_PROOF, _PROOF),
    "the three jobs of scripts/proof, all columns are declared": (list(COLUMNS), _PROOF),
}
USERS = 1_000_000


def read_once(
    folder: pathlib.Path, log: pathlib.Path, lines: int, declared: list[str], jobs: list[str], *, archive: bool
) -> tuple[float, float, int]:
    """Let a new agent read the log; return wall and CPU seconds, and bytes of its archive."""
    source = {"path": str(log), "format": "json", "columns": {name: COLUMNS[name] for name in declared}}
    agent = AgentProcess(folder, "web1", {"clicks": source}, [], archive={"enabled": archive})
    try:
        agent.start()
        assert agent.process is not None
        before_s = _cpu_s(agent.process.pid)
        with elf.connect(agent.url) as client:
            client.publish(text=jobs[0])
            began_s = time.monotonic()
            for text in jobs[1:]:
                client.publish(text=text)
            wait_until(lambda: agent.counters("clicks").get("read", 0) >= lines, "all is read", DEADLINE_S)
            taken_s = time.monotonic() - began_s
            spent_s = _cpu_s(agent.process.pid) - before_s
        ends = agent.counters("clicks")
        assert ends["parsed"] == lines, ends
    finally:
        agent.stop()
    return taken_s, spent_s, sum(path.stat().st_size for path in agent.archive.rglob("*.parquet"))


def _cpu_s(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    end_in_order()
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="scripts/bench archive", description=main.__doc__)
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    for name, (declared, jobs) in READS.items():
        log = data.clicks(args.lines) if len(jobs) == 1 else data.clicks(args.lines, USERS)
        measure(name, log, declared, jobs, args.lines, args.rounds)


def measure(name: str, log: pathlib.Path, declared: list[str], jobs: list[str], lines: int, rounds: int) -> None:
    """Measure some jobs, with and without the archive, and print."""
    found: dict[bool, list[tuple[float, float, int]]] = {True: [], False: []}
    for _ in range(rounds):
        for archive in (False, True):
            with tempfile.TemporaryDirectory(prefix="elf-archive-") as folder:
                found[archive].append(read_once(pathlib.Path(folder), log, lines, declared, jobs, archive=archive))
    wall_s, cpu_s = ({on: statistics.median(each[of] for each in all_) for on, all_ in found.items()} for of in (0, 1))
    print(name)
    for on in (False, True):
        rate = f"{lines / wall_s[on] / 1e6:.2f} M lines/s, {lines / cpu_s[on] / 1e6:.2f} M lines per CPU second"
        print(f"  archive {'on ' if on else 'off'}  {rate}")
    by_wall, by_cpu = (1 - cost_s[False] / cost_s[True] for cost_s in (wall_s, cpu_s))
    size = found[True][0][2] / lines
    cost = f"{by_wall:.1%} of the throughput, {by_cpu:.1%} by CPU (wanted: 15 %)"
    print(f"  the archive costs {cost}; {size:.1f} bytes a line")


if __name__ == "__main__":
    main()
