"""One agent's pipeline over a file: tail, parse, worker, sealed snapshots, and the master's windows.

Run as `engine_elf.py QUERY FILE`; prints the result as JSON.
"""

from __future__ import annotations

import json
import os
import sys

# One agent takes no more of its web server than one core; more threads cost CPU and gain only time.
os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from elf.agents.host.allocation import keep_freed_memory, loading

# As the commands of `elf` load what they need.
with loading():
    import polars as pl
    from queries import QUERIES

    from elf.agents.intake.batches import Gathering, events_of
    from elf.agents.jobs.definition import Definition, Options
    from elf.agents.jobs.plan import compile_job
    from elf.agents.language.types import SqlType
    from elf.agents.settings.config import PrivacySection
    from elf.agents.sources.dictionaries import Dictionaries
    from elf.agents.sources.files.tail import Tail
    from elf.agents.sources.format import make_format
    from elf.agents.sources.privacy.redaction import Redactor
    from elf.agents.worker.paos import by_interval
    from elf.agents.worker.payload import unpack
    from elf.agents.worker.worker import Worker

#: The largest that an agent can be told to read at a time.
CHUNK_BYTES = 16 << 20


def main(name: str, path: str) -> None:
    """Run a query over a file and print its rows."""
    keep_freed_memory()
    query = QUERIES[name]
    log = make_format(query.format)
    definition = Definition(
        name=name, creator="bench", source="log", query=query.sql, columns={}, options=Options(lateness_ms=10_000)
    )
    types = log.columns or {column: SqlType.parse(kind) for column, kind in query.columns.items()}
    plan = compile_job(definition, types)
    worker = Worker(plan, "bench")
    worker.begin(None)
    tail = Tail([path])
    # As agents do unless told otherwise: secrets in addresses of pages are looked for.
    redactor = Redactor(PrivacySection(), derived=query.format != "json")
    dictionaries = Dictionaries(redactor.texts)
    panes: dict[int, list[pl.DataFrame]] = {}
    newest_ms = 0

    def read(lines: Gathering) -> bool:
        """Read one chunk, and let it go before the next one is read."""
        chunk = tail.read(CHUNK_BYTES)
        if chunk is None:
            return False
        lines.add(path, chunk.data)
        return not lines.is_enough

    def step() -> bool:
        """Read and process as much as an agent's pump does in a step."""
        nonlocal newest_ms
        literals = redactor.literals([plan.literals])
        lines = Gathering(log, literals, [plan.columns], CHUNK_BYTES, dictionaries=dictionaries)
        while read(lines):
            pass
        for _, (parts,) in (logs := lines.take()):
            if any(not part.counters.balanced or part.counters.rejected for part in parts):
                sys.exit(f"lines were lost: {[part.counters for part in parts]}")
            events = events_of(parts)
            if events.height:
                newest_ms = max(newest_ms, events["ts"].cast(pl.Int64).max())  # type: ignore[call-overload]
                worker.insert(redactor.events(events))
                _take(worker, newest_ms, panes)
        return bool(logs)

    while step():
        pass
    _take(worker, newest_ms + 3_600_000, panes)
    rows: list[list[object]] = []
    if plan.window is None:
        merged = plan.schema.merge_window([frame for frames in panes.values() for frame in frames])
        rows = [list(row) for row in plan.finish(merged, None).iter_rows()]
    else:
        for pane, frames in sorted(panes.items()):
            start_ms = pane * plan.interval_ms
            result = plan.finish(plan.schema.merge_window(frames), (start_ms, start_ms + plan.interval_ms))
            rows += [[start_ms, *row] for row in result.iter_rows()]
    json.dump(rows, sys.stdout)


def _take(worker: Worker, watermark_ms: int, panes: dict[int, list[pl.DataFrame]]) -> None:
    """Seal what the watermark closed, and file it as the master does: by interval."""
    for snapshot in worker.seal(watermark_ms):
        if snapshot.payload is not None:
            _, paos = unpack(snapshot.payload, worker.plan)
            for interval, part in by_interval(paos.by_kind()[0]):
                panes.setdefault(interval, []).append(part)


if __name__ == "__main__":
    main(*sys.argv[1:])
