"""Plans and event frames for tests of the parts that run them."""

from collections.abc import Sequence

import polars as pl

from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.language.types import SqlType
from elf.agents.worker.payload import Notes, unpack

COLUMNS = {"product": SqlType.STRING, "cents": SqlType.BIGINT}
WINDOWED = """
SELECT product, count(*) AS n, sum(cents) AS cents FROM clicks
GROUP BY product, window(ts, '4 seconds', '2 seconds') ORDER BY n DESC, product
"""
CUMULATIVE = "SELECT product, count(*) AS n FROM clicks GROUP BY product"


def plan_of(query: str = WINDOWED, *, lateness_ms: int = 0, options: str = "") -> Plan:
    """Compile a query over the columns of `events`; intervals are 2 s for the windowed one."""
    text = f'name = "job"\ncreator = "shop"\nquery = """{query}"""\n[options]\nlateness = "{lateness_ms}ms"\n{options}'
    return compile_job(load_definition(text, filename="job.toml"), COLUMNS)


def events(rows: Sequence[tuple[int, str | None, int | None]]) -> pl.DataFrame:
    """Build an event frame from (ts_ms, product, cents)."""
    schema = {"ts": pl.Int64, "product": pl.String, "cents": pl.Int64}
    return pl.DataFrame(list(rows), schema=schema, orient="row").with_columns(pl.col("ts").cast(pl.Datetime("ms")))


def opened(payload: bytes, plan: Plan) -> tuple[Notes, pl.DataFrame]:
    """Decode a payload of a job that was never changed: its PAOs are of one kind."""
    notes, paos = unpack(payload, plan)
    return notes, paos.by_kind().get(0, plan.schema.empty())
