"""What a data folder's database holds, read as the store's own readers read it."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from typing import Any

import msgspec

from elf.agents.intake.progress import SourceProgress
from elf.agents.master.state import restored
from elf.agents.sources.files import rotation
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.store.controls import Controls, decided_key
from elf.agents.store.database import Database
from elf.agents.store.groups import GroupLogs
from elf.agents.store.held import HeldReplicas
from elf.agents.store.panes import Kind, Panes
from elf.agents.store.records import Records
from elf.agents.wire.records import JobRecord, Member
from elf.overlay.contract import Record
from elf.overlay.decoding import read_msgpack

Holdings = dict[str, Any]


def counted_rows(path: pathlib.Path) -> dict[str, int]:
    """Count the rows of each table, past the store; with a log beside the file SQLite takes up what is in that."""
    with contextlib.closing(sqlite3.connect(path)) as sql:
        tables = [name for (name,) in sql.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {name: sql.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}


def holdings(path: pathlib.Path) -> Holdings:
    """Open a database, read all there is in it, and say in JSON's terms what that is."""
    database = Database(path)
    try:
        with contextlib.closing(database.reader()) as sql:
            sources = [name for (name,) in sql.execute("SELECT source FROM sources ORDER BY source")]
            trees = [tree for (tree,) in sql.execute("SELECT tree FROM workers ORDER BY tree")]
            apps = [app for (app,) in sql.execute("SELECT DISTINCT app FROM records ORDER BY app")]
        checkpoints, panes, held = Checkpoints(database), Panes(database), HeldReplicas(database)
        found: Holdings = {
            "agent": database.agent_id,
            "predecessor": database.predecessor,
            "sources": {name: _source(checkpoints, name) for name in sources},
            "workers": {tree.hex(): _worker(checkpoints, tree) for tree in trees},
            "masters": {row[0].hex(): _master(database, *row) for row in panes.masters()},
            "records": {app.hex(): [_record(each) for each in Records(database).all(app)] for app in apps},
            "held_snapshots": [[copy.tree.hex(), copy.agent, copy.through] for copy in held.snapshots()],
            "held_checkpoints": sorted(map(list, held.checkpoints())),
        }
        assert all(held.checkpoint(source, address) for source, address in held.checkpoints())
        found["damages"] = sum(database.damages.counts.values())
        return found
    finally:
        database.close()


def _source(checkpoints: Checkpoints, name: str) -> Holdings:
    state = checkpoints.source(name)
    assert state is not None
    progress = msgspec.json.decode(state.counters, type=SourceProgress)
    files = {"/".join(place.path.split("/")[-2:]): place.offset for place in rotation.decode(state.positions)}
    return {"read": progress.counters.read, "rejected": progress.counters.rejected, "files": files}


def _worker(checkpoints: Checkpoints, tree: bytes) -> Holdings:
    state = checkpoints.worker(tree)
    assert state is not None
    return {"sealed": state.progress.sealed, "waiting": [each.through for each in checkpoints.snapshots(tree)]}


def _master(database: Database, app: bytes, job: bytes, state: bytes) -> Holdings:
    record, known, panes = JobRecord.decode(job), restored(state), Panes(database)
    decided = Controls(database).state(decided_key(record.tree))
    log = GroupLogs(database).state(record.tree, known.applied, known.seats)
    blocks = {kind.name: len(panes.blocks(app, kind)) for kind in Kind}
    return {
        "job": record.definition.key,
        "versions": len(record.history),
        "roster": sorted(known.enlisted),
        "term": log.term,
        "undecided": len(log.entries),
        "said": 0 if decided is None else len(decided.entries),
        "blocks": {name: count for name, count in blocks.items() if count},
    }


def _record(record: Record) -> list[Any]:
    """Return what a control record is about, once it was read."""
    is_member = record.key.startswith("member/")
    told: Any = read_msgpack(record.body, Member) if is_member else JobRecord.decode(record.body)
    return [record.key, record.version, told.name if is_member else told.definition.name]
