"""A result as programs see it: rows, the window they are of, and how complete they are.

The same to who asks an agent over HTTP and to applications inside it. Fields that a newer agent adds are ignored, so an
older client keeps working. Pure.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from elf.agents.completeness.overflows import Overflows
from elf.agents.language.instants import datetime_of
from elf.agents.language.json_rows import READ, each

if TYPE_CHECKING:
    import polars as pl

Row = dict[str, Any]


class Window(msgspec.Struct, frozen=True):
    """A half-open run of event time, [start_ms, end_ms)."""

    start_ms: int
    end_ms: int

    @property
    def start(self) -> datetime:
        """Its first instant, in UTC; OverflowError outside the years 1 to 9999, which Python does not have."""
        return datetime_of(self.start_ms)

    @property
    def end(self) -> datetime:
        """The instant after its last, in UTC; OverflowError outside the years 1 to 9999."""
        return datetime_of(self.end_ms)

    def __str__(self) -> str:
        return f"{self.start_ms}/{self.end_ms}"


class Column(msgspec.Struct, frozen=True):
    """One column of a result; `type` is Spark's name."""

    name: str
    type: str


class Completeness(msgspec.Struct, frozen=True):
    """How much of the truth a result holds: never more optimistic than what is known."""

    #: Agents whose data belongs in the result, and how many of them are in it.
    expected: int
    reported: int
    #: Names of the agents that are not.
    missing: list[str] = []
    #: Events that came late, rows left out of backfilled intervals, and logs truncated so that lines may be lost.
    late: int = 0
    shed: int = 0
    gaps: int = 0
    #: Lines that were no events, counted where the commit is that brought them.
    rejected: int = 0
    #: Intervals that were dropped as a whole because an agent was missing (`straggler = "void"`).
    void: int = 0
    #: Grows whenever this window's result changed after it was first published.
    revision: int = 0
    #: open | final | final_incomplete | revised | partial
    status: str = "open"
    #: Of a partial one: the agent that answers for its side, and the term of the job's root group that it knows of.
    side: str | msgspec.UnsetType = msgspec.UNSET
    term: int | msgspec.UnsetType = msgspec.UNSET
    #: How often an event is counted whatever crashes: exactly-once | at-least-once | at-most-once.
    semantics: str = "exactly-once"
    #: Values that are not there, for they do not fit into their type, and whose they are; unset if all are.
    overflows: Overflows | msgspec.UnsetType = msgspec.UNSET
    #: How many of the window's intervals were computed from the agents' archives (`elf backfill`); unset for none.
    backfilled: int | msgspec.UnsetType = msgspec.UNSET
    #: Beside `rejected`: how many lines the agents that rejected them have read meanwhile; unset for none.
    rejected_of: int | msgspec.UnsetType = msgspec.UNSET
    #: Column that the job reads -> values that do not fit its type and are null; unset for none.
    mistyped: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    #: What of the lines themselves makes it incomplete, `lines` and `types`: too many rejected, values that do not fit.
    causes: list[str] | msgspec.UnsetType = msgspec.UNSET

    @property
    def complete(self) -> bool:
        """Whether the window is closed and nothing is known to be missing."""
        lost = self.shed or self.gaps or self.void or self.missing or self.reported < self.expected
        return self.status in ("final", "revised") and not lost


class Windows(msgspec.Struct, frozen=True):
    """So many windows, the first of which begins at `start_ms` and the last of which ends at `end_ms`."""

    start_ms: int
    end_ms: int
    windows: int


class Result(msgspec.Struct, frozen=True):
    """One answer of a job: rows in the job's order, and how complete they are.

    Values are what JSON has: times are text, so are NaN, Infinity and -Infinity; `to_polars` gives them their types.
    Years beyond four digits have a sign, and Python's `datetime` has none of these.
    """

    job: str
    columns: list[Column]
    rows: list[Row]
    completeness: Completeness
    #: None for a job without windows; then `through_ms` says up to when it has counted.
    window: Window | None = None
    through_ms: int | None = None
    #: The agent that is the job's master, and the agents the question went through to reach it.
    master: str = ""
    hops: list[str] = []
    #: The version of the job that the window's last interval is counted by.
    version: int = 1
    #: Of a job that reads its last result: whether this one is the same, and has rows.
    converged: bool | msgspec.UnsetType = msgspec.UNSET
    #: How many rows more the result has, for which there was no room; of feedback only.
    cut: int | msgspec.UnsetType = msgspec.UNSET
    #: To who follows a job: older windows that late data changed together with this one, too many to send.
    also_revised: Windows | msgspec.UnsetType = msgspec.UNSET
    #: To who followed a job and was away: older windows that closed meanwhile, too many to send.
    also_closed: Windows | msgspec.UnsetType = msgspec.UNSET

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a frame with the columns' own types (times are naive UTC)."""
        import polars as pl

        plain = {
            "BOOLEAN": pl.Boolean(),
            "INT": pl.Int32(),
            "BIGINT": pl.Int64(),
            "DOUBLE": pl.Float64(),
            "STRING": pl.String(),
            "DATE": pl.Int32(),
            "TIMESTAMP": pl.Int64(),
        }

        def dtype(kind: str) -> pl.DataType | None:
            """The type of the JSON values; None for one that this client does not know."""
            if not kind.startswith("ARRAY<"):
                return plain.get(kind)
            element = dtype(_element(kind))
            return None if element is None else pl.List(element)

        def typed(value: pl.Expr, kind: str) -> pl.Expr:
            """Times and dates from their numbers, alone or in arrays."""
            if kind.startswith("ARRAY<"):
                return value.list.eval(typed(pl.element(), _element(kind)))
            times = {"TIMESTAMP": pl.Datetime("us"), "DATE": pl.Date()}
            return value.cast(times[kind]) if kind in times else value

        schema = {column.name: dtype(column.type) for column in self.columns}
        read = {column.name: READ.get(_element(column.type)) for column in self.columns}
        texts = {name: reads for name, reads in read.items() if reads is not None}
        rows = self.rows
        if texts:
            rows = [{**row, **{name: each(reads, row.get(name)) for name, reads in texts.items()}} for row in rows]
        frame = pl.DataFrame(rows, schema=schema, strict=False, infer_schema_length=None)
        return frame.with_columns(typed(pl.col(column.name), column.type) for column in self.columns)


def _element(kind: str) -> str:
    return kind.removeprefix("ARRAY<").removesuffix(">")
