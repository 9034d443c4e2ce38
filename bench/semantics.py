"""What the semantics of a job cost at one agent: time from seal to hand-over, CPU and bytes written an interval.

One pump with its store on a real disk, a clock of its own, intervals of two seconds with so many keys each, two
checkpoints an interval while lines come, one as it is sealed.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from elf.agents.host.clock import Clock  # noqa: E402
from elf.agents.intake.decoder import make_decoder  # noqa: E402
from elf.agents.intake.pump import Pump, PumpSettings, Sealed  # noqa: E402
from elf.agents.jobs.definition import load_definition  # noqa: E402
from elf.agents.jobs.plan import Plan, compile_job  # noqa: E402
from elf.agents.language.types import SqlType  # noqa: E402
from elf.agents.settings.config import SourceConfig  # noqa: E402
from elf.agents.sources.files.tail import Tail  # noqa: E402
from elf.agents.sources.rejected import RejectedLines  # noqa: E402
from elf.agents.store.checkpoints import Checkpoints  # noqa: E402
from elf.agents.store.database import Database  # noqa: E402
from elf.agents.worker.worker import Worker  # noqa: E402
from elf.overlay.contract import NEVER, Verdict  # noqa: E402

START_MS = 1_767_225_600_000
JOB = """
name = "job"
creator = "bench"
query = "SELECT product, count(*) AS n, sum(cents) AS cents FROM clicks GROUP BY product, window(ts, '2 seconds')"
[options]
lateness = "100ms"
semantics = "{semantics}"
"""


class Meter:
    """Adds up what this process spends while it is on."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.written_bytes = 0

    def __enter__(self) -> None:
        self._began = self._now()

    def __exit__(self, *_: object) -> None:
        cpu_s, written = self._now()
        self.cpu_s += cpu_s - self._began[0]
        self.written_bytes += written - self._began[1]

    def _now(self) -> tuple[float, int]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        lines = pathlib.Path("/proc/self/io").read_text().splitlines()
        written = next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))
        return usage.ru_utime + usage.ru_stime, written


def play(plan: Plan, folder: pathlib.Path, keys: int, intervals: int) -> str:
    """Run so many intervals; returns what they cost."""
    now_ms, rng, meter = START_MS, random.Random(1), Meter()
    database = Database(folder / "state" / "state.db")
    pump = Pump(
        PumpSettings(source="clicks", chunk_bytes=4 << 20, checkpoint_ms=1_000),
        Tail(str(folder / "*.log")),
        make_decoder("clicks", SourceConfig(format="json")),
        Checkpoints(database),
        None,
        RejectedLines(folder / "rejected" / "clicks.txt"),
        Clock(lambda: now_ms, lambda: now_ms),
    )
    worker = Worker(plan, "w1", new=True)
    pump.attach(worker)
    pump.checkpoint()
    took_ms, settled, size = [], NEVER, 0
    for number in range(intervals):
        for offset_ms in (500, 1_500):
            now_ms = START_MS + 2_000 * number + offset_ms
            lines = (f'{{"ts":{now_ms},"product":"p{rng.getrandbits(30)}","cents":1}}\n' for _ in range(keys // 2))
            with (folder / "a.log").open("a") as file:
                file.write("".join(lines))
            with meter:
                while pump.step():
                    pass
                now_ms += 400
                pump.checkpoint()
        now_ms = START_MS + 2_000 * (number + 1) + 200
        pump.step()
        with meter:
            sealed: Sequence[Sealed] = ()
            while not sealed:
                began_s = time.perf_counter()
                sealed = pump.checkpoint()
                now_ms += 50  # after a slow one it rests
            took_ms.append(1000 * (time.perf_counter() - began_s))
            through = sealed[-1].snapshot.through
            pump.settle(worker.tree, Verdict(settled, through, False))
        settled, size = through, len(sealed[-1].snapshot.payload or b"")
    database.close()
    return (
        f"seal to hand-over p50 {statistics.median(took_ms):.1f} ms, "
        f"CPU {1000 * meter.cpu_s / intervals:.0f} ms and {meter.written_bytes / intervals / 1000:.0f} kB written an "
        f"interval, of {size / 1000:.0f} kB"
    )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="scripts/bench semantics", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--keys", type=int, default=100_000, help="keys an interval")
    parser.add_argument("--intervals", type=int, default=20)
    parser.add_argument("--folder", help="where to write; default: the system's folder for temporary files")
    chosen = parser.parse_args()
    for semantics in ("exactly-once", "at-least-once", "at-most-once"):
        definition = load_definition(JOB.format(semantics=semantics), filename="job.toml")
        plan = compile_job(definition, {"product": SqlType.STRING, "cents": SqlType.BIGINT})
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            print(f"{semantics:13} {play(plan, pathlib.Path(folder), chosen.keys, chosen.intervals)}", flush=True)


if __name__ == "__main__":
    main()
