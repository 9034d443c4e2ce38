"""What an agent answers, as typed records: results with their completeness, jobs, members, trees.

Fields that a newer agent adds are ignored, so an older client keeps working.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import polars as pl

Row = dict[str, Any]


class Window(msgspec.Struct, frozen=True):
    """A half-open run of event time, [start_ms, end_ms)."""

    start_ms: int
    end_ms: int

    @property
    def start(self) -> datetime:
        """Its first instant, in UTC."""
        return datetime.fromtimestamp(self.start_ms / 1000, UTC)

    @property
    def end(self) -> datetime:
        """The instant after its last, in UTC."""
        return datetime.fromtimestamp(self.end_ms / 1000, UTC)

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
    #: Events that came late, events shed on overload, and logs truncated so that lines may be lost.
    late: int = 0
    shed: int = 0
    gaps: int = 0
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
    #: How many of the window's intervals were computed from the agents' archives (`elf backfill`); unset for none.
    backfilled: int | msgspec.UnsetType = msgspec.UNSET

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
    """One answer of a job: rows in the job's order, and how complete they are."""

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
            **dict.fromkeys(("STRING", "DATE", "TIMESTAMP"), pl.String()),
        }

        def dtype(kind: str) -> pl.DataType | None:
            """The type of the JSON values; None for one that this client does not know."""
            if not kind.startswith("ARRAY<"):
                return plain.get(kind)
            element = dtype(_element(kind))
            return None if element is None else pl.List(element)

        def typed(value: pl.Expr, kind: str) -> pl.Expr:
            """Times and dates from their text, alone or in arrays."""
            if kind.startswith("ARRAY<"):
                return value.list.eval(typed(pl.element(), _element(kind)))
            if kind == "TIMESTAMP":
                return value.str.strip_chars_end("Z").str.to_datetime(time_unit="us")
            return value.str.to_date() if kind == "DATE" else value

        schema = {column.name: dtype(column.type) for column in self.columns}
        frame = pl.DataFrame(self.rows, schema=schema, strict=False, infer_schema_length=None)
        return frame.with_columns(typed(pl.col(column.name), column.type) for column in self.columns)


def _element(kind: str) -> str:
    return kind.removeprefix("ARRAY<").removesuffix(">")


class Job(msgspec.Struct, frozen=True):
    """A published job."""

    creator: str
    name: str
    source: str = ""
    #: HOST:PORT of its master; empty while none is known.
    master: str = ""
    state: str = ""
    version: int = 1
    query: str = ""
    #: Types of the columns it reads, as frozen when it was published.
    columns: dict[str, str] = {}
    app_id: str = ""

    @property
    def key(self) -> str:
        """Its full name, `creator/name`."""
        return f"{self.creator}/{self.name}"


class Version(msgspec.Struct, frozen=True):
    """One version of a job; times in ms of event time, but for `made_ms`.

    Attributes:
        version: its number.
        what: what made it: publish, update, rollback, reset, pause or resume.
        query: the SQL text.
        made_ms: when.
        since_ms: what begins then or later is counted by it; None: all before the next version.
        until_ms: ... and before this; None: it is the newest.
        begins_ms: its windows have nothing of before; None: they have all there is.
        columns: types of the columns it reads.
        options: how it runs.
    """

    version: int
    what: str
    query: str
    made_ms: int
    since_ms: int | None = None
    until_ms: int | None = None
    begins_ms: int | None = None
    columns: dict[str, str] = {}
    options: dict[str, Any] = {}


class Leap(msgspec.Struct, frozen=True):
    """Up to which event time, in ms, a job waits no longer for agents, and for which (their names)."""

    through_ms: int
    agents: list[str]


class Member(msgspec.Struct, frozen=True):
    """An agent of the overlay."""

    id: str
    address: str
    name: str = ""
    sources: list[str] = []
    is_self: bool = False


class Gap(msgspec.Struct, frozen=True):
    """Since which event time an agent's data is missing from a job; None: it was never counted."""

    job: str
    missing_since_ms: int | None = None


class Untold(msgspec.Struct, frozen=True):
    """A job whose master could not be told, or, without a job, a source's agents; and why."""

    job: str
    why: str


class Retirement(msgspec.Struct, frozen=True):
    """An agent that is expected no more, by its id, and what its jobs lack."""

    agent: str
    name: str
    jobs: list[Gap] = []
    unreachable: list[Untold] = []


class Intervals(msgspec.Struct, frozen=True):
    """Whole intervals of a job, or of one of its parts, as the archives have them.

    Attributes:
        instance: the publication they were computed for, as `client.job` has it.
        first: number of the first interval.
        last: number of the last one, included.
        block: their PAOs, as `cbt.encode` makes it.
        missing: ids of agents whose archives lack some of it.
        part: which of the job's parts.
    """

    instance: str
    first: int
    last: int
    block: bytes
    missing: list[str] = []
    part: int = 0


class TreeNode(msgspec.Struct, frozen=True):
    """An agent's place in a job's reducer tree; the root has no parent."""

    id: str
    address: str
    name: str = ""
    parent: str | None = None
    role: str = ""


class Tree(msgspec.Struct, frozen=True):
    """A job's reducer tree."""

    root: str | None
    nodes: list[TreeNode]
