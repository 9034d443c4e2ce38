"""Payloads as workers make them, of a job that uses every kind of aggregate the SQL knows."""

from __future__ import annotations

import functools

import lz4.frame
import msgspec
import polars as pl

from elf.agents.jobs.definition import Definition
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.language.joins import Joined, Use, clock_query
from elf.agents.worker.paos import Paos, StoredTable, encode_open
from elf.agents.worker.payload import Notes, pack, unpack
from elf.agents.worker.worker import Worker
from elf.cbt import PaoSchema, encode
from elf.cbt.placed import encode_placed, order_of, place
from tests.agents.plans import CUMULATIVE, events, plan_of

QUERY = """
SELECT product, count(*) AS n, sum(cents) AS total, avg(cents) AS mean, min(cents) AS low, max(product) AS high,
  stddev(cents) AS spread, approx_count_distinct(cents) AS about, approx_percentile(cents, 0.5) AS middle,
  count(DISTINCT cents) AS distinct, collect_set(cents) AS all_cents, bool_or(cents > 1) AS any_dear,
  max_by(product, cents) AS dearest, sum(cents / 3) AS thirds
FROM clicks GROUP BY product, window(ts, '4 seconds', '2 seconds')
"""
PLAN = plan_of(QUERY)
SCHEMA: PaoSchema = PLAN.schema
#: States of which there can be blocks without keys.
NUMBERS = plan_of(
    "SELECT product, count(*) AS n, avg(cents) AS mean, min(cents) AS low, approx_count_distinct(cents) AS about, "
    "bool_or(cents > 1) AS any_dear FROM clicks GROUP BY product, window(ts, '4 seconds')"
)


#: The same job, changed to PAOs of another kind.
CHANGED = Versions(
    [
        Compiled(Version(number=1, definition=PLAN.definition), PLAN),
        Compiled(
            Version(number=2, definition=NUMBERS.definition, what="update", since=5, begins=5, pao_kind=2), NUMBERS
        ),
    ]
)


def definitions() -> list[Definition]:
    """Return jobs as they travel, with the types of their columns."""
    columns = {"product": "STRING", "cents": "BIGINT"}
    uses = tuple(Use(job=f"shop/{name}", window=(4_000, 2_000), columns=columns) for name in ("sold", "worth"))
    text = "SELECT s.product FROM job('shop/sold') s JOIN job('shop/worth') w ON s.product = w.product"
    clock = plan_of(clock_query("clicks", (4_000, 2_000))).definition
    joined = msgspec.structs.replace(clock, joined=Joined(query=text, uses=uses))
    return [joined] + [
        msgspec.structs.replace(plan_of(query).definition, columns=columns)
        for query in (
            QUERY,
            CUMULATIVE,
            "SELECT product, upper(product) AS u FROM clicks WHERE cents > 3 GROUP BY product",
        )
    ]


@functools.cache
def payloads() -> list[bytes]:
    """Return payloads of some sizes, with and without notes."""
    found: list[bytes] = []
    for count in (1, 3, 40):
        worker = Worker(PLAN, "w1")
        worker.insert(
            events([(1_000 + 37 * i, [None, "a", "é", f"p{i}"][i % 4], [None, 1, -5, i][i % 3]) for i in range(count)])
        )
        for snapshot in worker.seal(10_000):
            if snapshot.payload is not None:
                found.append(snapshot.payload)
                notes = Notes(late=2, gaps=((1, 2),), partial_before={"w1": 3}, settles={"w2": ((1, 4),)})
                found.append(pack(notes, unpack(snapshot.payload, PLAN)[1]) or b"")
    return found


def blocks() -> list[bytes]:
    """Return the compressed PAO blocks inside the payloads."""
    return [msgspec.msgpack.decode(payload)[1] for payload in payloads()]


def bodies() -> list[bytes]:
    """Return the blocks without their compression."""
    return [lz4.frame.decompress(block) for block in blocks()]


def placed_bodies() -> list[bytes]:
    """Return the decompressed bodies of blocks of placed PAOs: of all keys of an order, and of some."""
    found: list[bytes] = []
    for count in (1, 40):
        rows = events([(37 * i, f"p{i}", i * 1000) for i in range(count)])
        frame = NUMBERS.schema.merge([NUMBERS.reduce(rows)])
        order = order_of(frame, NUMBERS.schema)
        for part in (frame, frame.head(count // 2 + 1)):
            placed = place(part, order, NUMBERS.schema, 7)
            assert placed is not None
            found.append(lz4.frame.decompress(encode_placed(placed[0])[1:]))
    return found


@functools.cache
def changed_payloads() -> list[bytes]:
    """Return payloads of a changed job, of one kind of PAOs and of both."""
    notes = Notes(late=2, since={"w1": {2: 5}}, lost={"w1": ((1, 2),)})
    return [pack(said, _both(count)) or b"" for count in (1, 3, 20) for said in (notes, Notes())]


def open_blocks() -> list[bytes]:
    """Return what workers of a changed job have open."""
    tables = tuple(StoredTable(kind, 1, ((-5, -2), (1, 2)), encode(frame)) for kind, frame in _both(20).parts)
    return [encode_open(_both(count), CHANGED, told) for count in (1, 3, 20) for told in ((), tables)]


def _both(count: int) -> Paos:
    rows = events([(1_000 * i, f"p{i % 4}", i) for i in range(count)])
    return Paos([(0, PLAN.reduce(rows.filter(pl.lit(count != 3)))), (2, NUMBERS.reduce(rows))])
