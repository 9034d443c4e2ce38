"""What jobs cost one agent that have filter, keys and aggregates in common, beside as many that differ in a constant.

One pump with its store on a real disk and a clock of its own: it reads so many lines an interval, makes a checkpoint
while that is open and one as it is sealed. Jobs differ in name, creator and LIMIT, and in one case in the constant of
their filter, which lets nearly all events pass. All cases take turns; figures are medians.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

# One agent takes no more of its web server than one core.
os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from elf.agents.host.clock import Clock  # noqa: E402
from elf.agents.intake.decoder import make_decoder  # noqa: E402
from elf.agents.intake.pump import Pump, PumpSettings  # noqa: E402
from elf.agents.jobs.definition import Definition, Options  # noqa: E402
from elf.agents.jobs.plan import Plan, compile_job  # noqa: E402
from elf.agents.language.types import SqlType  # noqa: E402
from elf.agents.settings.config import SourceConfig  # noqa: E402
from elf.agents.sources.files.tail import Tail  # noqa: E402
from elf.agents.sources.rejected import RejectedLines  # noqa: E402
from elf.agents.store.checkpoints import Checkpoints  # noqa: E402
from elf.agents.store.database import Database  # noqa: E402
from elf.agents.worker.worker import Worker  # noqa: E402

START_MS = 1_767_225_600_000
INTERVAL_MS = 10_000
QUERY = """SELECT product, count(*) AS n, sum(cents) AS cents FROM clicks
WHERE cents > {above} GROUP BY product, window(ts, '10 seconds') ORDER BY n DESC LIMIT {limit}"""
COLUMNS = {"product": SqlType.STRING, "cents": SqlType.BIGINT}
COUNTS = (1, 10, 50)


class Cost(NamedTuple):
    """CPU, in ns a line, of reading and of checkpoints with the seal; bytes open at the end of an interval."""

    reading_ns: float
    checkpoints_ns: float
    open_bytes: float


def plans_of(count: int, *, equal: bool) -> list[Plan]:
    """Return plans of so many jobs of as many creators."""
    definitions = [
        Definition(
            name=f"job{number}",
            creator=f"creator{number}",
            source="clicks",
            query=QUERY.format(above=0 if equal else number, limit=number + 1),
            options=Options(lateness_ms=1_000),
        )
        for number in range(count)
    ]
    return [compile_job(each, COLUMNS) for each in definitions]


def lines_of(number: int, keys: int, lines: int) -> str:
    """Return the lines of an interval."""
    rng, start_ms = random.Random(number), START_MS + INTERVAL_MS * number
    return "".join(
        f'{{"ts":{start_ms + INTERVAL_MS * at // lines},"product":"p{rng.randrange(keys)}",'
        f'"cents":{rng.randrange(1, 100_000)},"page":"/shop/item","agent":"Mozilla/5.0 (X11; Linux x86_64)"}}\n'
        for at in range(lines)
    )


def play(plans: list[Plan], folder: pathlib.Path, texts: list[str]) -> Cost:
    """Let workers of these plans read intervals one after the other."""
    now_ms = START_MS
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
    pump.attach(*(Worker(plan, "w1", new=True) for plan in plans))
    pump.checkpoint(force=True)
    read_s = stored_s = open_bytes = 0.0
    for number, text in enumerate(texts):
        now_ms = START_MS + INTERVAL_MS * (number + 1) - 1
        with (folder / "a.log").open("a") as file:
            file.write(text)
        began_s = time.process_time()
        while pump.step():
            pass
        read_s += time.process_time() - began_s
        open_bytes += sum(worker.memory_bytes for worker in pump.workers.values())
        began_s = time.process_time()
        pump.checkpoint(force=True)
        now_ms += 5_000
        pump.step()
        if len(pump.checkpoint(force=True)) < len(plans):
            sys.exit("an interval was not sealed by all jobs")
        stored_s += time.process_time() - began_s
    database.close()
    lines = sum(text.count("\n") for text in texts)
    return Cost(read_s * 1e9 / lines, stored_s * 1e9 / lines, open_bytes / len(texts))


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="scripts/bench sharing", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--keys", type=int, default=20_000, help="different keys")
    parser.add_argument("--lines", type=int, default=100_000, help="lines an interval")
    parser.add_argument("--intervals", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where to write; default: the system's folder for temporary files")
    chosen = parser.parse_args()
    texts = [lines_of(number, chosen.keys, chosen.lines) for number in range(chosen.intervals)]
    cases = [(count, equal) for count in COUNTS for equal in (True, False)]
    costs: dict[tuple[int, bool], list[Cost]] = {case: [] for case in cases}
    for _ in range(chosen.rounds):
        for count, equal in cases:
            with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
                costs[count, equal].append(play(plans_of(count, equal=equal), pathlib.Path(folder), texts))
    medians = {case: Cost(*map(statistics.median, zip(*found, strict=True))) for case, found in costs.items()}
    one = medians[1, True]
    print("| jobs | | reading, ns a line | to one job | checkpoints, ns a line | to one job | open, MB | to one job |")
    print("|---|---|---|---|---|---|---|---|")
    for count, equal in cases:
        if count > 1 or equal:
            cost, kind = medians[count, equal], "" if count == 1 else "equal" if equal else "differing"
            cells = [f"{cost.reading_ns:,.0f}", f"{cost.reading_ns / one.reading_ns:.1f}"]
            cells += [f"{cost.checkpoints_ns:,.0f}", f"{cost.checkpoints_ns / one.checkpoints_ns:.1f}"]
            cells += [f"{cost.open_bytes / 1e6:.1f}", f"{cost.open_bytes / one.open_bytes:.1f}"]
            print("| " + " | ".join([str(count), kind, *cells]) + " |")


if __name__ == "__main__":
    main()
