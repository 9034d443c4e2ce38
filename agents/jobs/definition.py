"""What a person publishes: a job's definition, how its file is written and how it travels.

Owns the job file (TOML, or bare SQL) and its wire form; what the query means is `plan`'s. DESIGN section 4.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from elf.agents.errors import JobSpecError, did_you_mean, nearest
from elf.agents.jobs.own_functions_table import Read, read_functions
from elf.agents.jobs.parts import Part, parts_of
from elf.agents.language.dialect import QUERY_BYTES_MAX
from elf.agents.language.durations import DURATION_MS_MAX
from elf.agents.language.joins import Joined, check_joined, parse_joins, reads_jobs
from elf.agents.language.own_functions import OwnFunction, check_functions
from elf.agents.language.places import APPLICATION, Places
from elf.agents.language.query import outline_of
from elf.agents.language.types import SqlType
from elf.agents.toml.text import TomlError, parse_toml
from elf.overlay.interning import interned, interned_mapping, interned_text

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
CREATOR_DEFAULT = "local"
#: The job file around a query of at most QUERY_BYTES_MAX.
FILE_BYTES_MAX = 4 * QUERY_BYTES_MAX
COLUMNS_MAX = 1_000

#: More would only cost more: two agents that fail within a second of each other are rare.
REPLICAS_MAX = 3
#: Each tree costs every agent an edge and a snapshot an interval, and every result a question.
TREES_MAX = 64
#: Every agent of the job has them in memory, and hears of them with each new result.
FEEDBACK_ROWS_MAX = 10_000

#: A duration in a definition from another agent; files are held to the same (`parse_duration_ms`).
Duration: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=DURATION_MS_MAX)]

#: Intervals of a millisecond since 1970, and far beyond.
SHIFT_MAX = 1 << 53

_FIELDS = ("name", "creator", "source", "query", "options", "columns", "functions", "signed")
#: Options that are durations: as they are written, and their fields.
DURATION_OPTIONS = {
    "lateness": "lateness_ms",
    "interval": "interval_ms",
    "retain": "retain_ms",
    "leap_after": "leap_after_ms",
    "emit_every": "emit_every_ms",
}
_COUNTS = {"trees": (1, TREES_MAX), "replicas": (0, REPLICAS_MAX), "feedback": (0, FEEDBACK_ROWS_MAX)}
_CHOICES: dict[str, tuple[str, ...]] = {
    "straggler": ("late", "drop", "void", "mirror"),
    "semantics": ("exactly-once", "at-least-once", "at-most-once"),
    "availability": ("exact", "partial"),
}


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a job runs; the defaults suit most queries."""

    #: Reducer trees the keys are partitioned over, each with a master of its own.
    trees: Annotated[int, msgspec.Meta(ge=1, le=TREES_MAX)] = 1
    #: How long after an interval's end its late events are still waited for.
    lateness_ms: Annotated[int, msgspec.Meta(ge=0, le=DURATION_MS_MAX)] = 2_000
    #: What happens when a commit had to leap over an agent. late: its data rides in its next snapshot and corrects the
    #: result. drop: the agent drops its data of those intervals (the paper's leap). void: everybody's data of them is
    #: dropped (what the paper's section 2.3 says), so that no result lacks a part. mirror: late, and a neighbour that
    #: holds its snapshots answers for it (the paper's mirroring).
    straggler: Literal["late", "drop", "void", "mirror"] = "late"
    #: Neighbours that hold each sealed snapshot until its verdict; unless set: 1, and 0 for at-most-once jobs.
    replicas: Annotated[int, msgspec.Meta(ge=0, le=REPLICAS_MAX)] | None = None
    #: How often an event is counted whatever crashes. at-least-once: snapshots leave before they are on disk, so the
    #: lines behind them may be counted again. at-most-once: PAOs are never on disk, so a crash loses them, by name.
    semantics: Literal["exactly-once", "at-least-once", "at-most-once"] = "exactly-once"
    #: What is answered while the job's root group is split. exact: nothing by the side without a majority. partial
    #: (for jobs of one tree): both sides answer, and say so; neither's results are final before the other's data come.
    availability: Literal["exact", "partial"] = "exact"
    #: Length of an interval; unless set: gcd(size, slide) of the window, or 10 s without one.
    interval_ms: Duration | None = None
    #: How long past windows can be asked for; unless set: the agent's default.
    retain_ms: Duration | None = None
    #: How long the tree waits for a straggler before it leaps over it; unless set: two intervals, see `Plan`.
    leap_after_ms: Duration | None = None
    #: How often, in event time, followers are sent the window that is still open; unless set: never. Without a window:
    #: how often they are sent the result; unless set: with every interval.
    emit_every_ms: Duration | None = None
    #: So many rows of each new result come back to every agent of the job, for applications beside it; 0: none do.
    feedback: Annotated[int, msgspec.Meta(ge=0, le=FEEDBACK_ROWS_MAX)] = 0
    #: The installed application that runs beside it, at its master and its agents (`elf.agents.applications`); "":
    #: none.
    application: Annotated[str, msgspec.Meta(pattern=rf"^({APPLICATION})?\Z")] = ""

    @property
    def holders(self) -> int:
        """How many neighbours hold a copy of each sealed snapshot."""
        if self.replicas is not None:
            return self.replicas
        return 0 if self.semantics == "at-most-once" and self.straggler != "mirror" else 1


OPTIONS_DEFAULT = Options()


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job as published.

    Attributes:
        name: unique for its creator.
        creator: whose job it is.
        source: the source it reads, as the query names it; of a job over other jobs, that of the first of these, or
            nothing before they are looked up.
        query: the SQL text that its agents run.
        columns: raw column -> DDL type; empty until resolved at publish.
        options: how it runs.
        version: rises with every change of the definition.
        part: which of the job's trees this is about, 0 <= part < options.trees; 0 is what people name.
        joined: what the master makes of other jobs' results; None for a job over a source.
        functions: those that it brings along, by name.
        shift: what is added to the numbers of its intervals (`elf.agents.jobs.intervals.Numbering`): other than 0 once
        a
            version has made them longer or shorter.
    """

    name: str
    creator: str
    source: str
    query: str
    columns: dict[str, str] = {}
    options: Options = Options()
    version: int = 1
    part: int = 0
    joined: Joined | None = None
    functions: tuple[OwnFunction, ...] = ()
    shift: Annotated[int, msgspec.Meta(ge=-SHIFT_MAX, le=SHIFT_MAX)] = 0

    def __post_init__(self) -> None:
        # The jobs of a source have most of it in common, and an agent knows many of them.
        alike = {
            "creator": interned_text(self.creator),
            "source": interned_text(self.source),
            "columns": interned_mapping(self.columns),
            "options": interned(self.options),
        }
        for field, value in alike.items():
            msgspec.structs.force_setattr(self, field, value)

    @property
    def text(self) -> str:
        """The query as people wrote it."""
        return self.query if self.joined is None else self.joined.query

    @property
    def place(self) -> Part:
        """Which part of the job this is about."""
        return Part(self.creator, self.name, self.part)

    @property
    def parts(self) -> list[Part]:
        """All parts of the job, the first one first."""
        return parts_of(self.creator, self.name, self.options.trees)

    @property
    def first(self) -> Part:
        """The first part of the job."""
        return Part(self.creator, self.name)

    @property
    def is_first(self) -> bool:
        """Whether this is about the first part, which stands for all; of most jobs there is no other."""
        return self.part == 0

    @property
    def is_alone(self) -> bool:
        """Whether the job has no other part."""
        return self.options.trees == 1

    @property
    def app_id(self) -> bytes:
        """The key of this part in the overlay."""
        return self.place.app

    @property
    def types(self) -> dict[str, SqlType]:
        """The types of `columns`; raises ValueError where one is no type, which `check_definition` rules out."""
        return {name: SqlType.parse(kind) for name, kind in self.columns.items()}

    @property
    def key(self) -> str:
        """`creator/name`, and `#part` behind it for parts other than the first."""
        return self.place.key


def load_definition(
    text: str,
    *,
    filename: str = "job.toml",
    name: str | None = None,
    creator: str | None = None,
    read: Read | None = None,
) -> Definition:
    """Read a job file: TOML, or bare SQL if `filename` ends in `.sql`.

    Args:
        text: the file's content.
        filename: where it came from; names a bare SQL job.
        name: overrides the name in the file.
        creator: the creator if the file names none.
        read: reads files of functions; None: only what is in the text can be had.

    Raises:
        JobSpecError: with the place in the file; places in the query count from the query's first line.
    """
    if len(text.encode()) > FILE_BYTES_MAX:
        raise JobSpecError(f"the job file is longer than {FILE_BYTES_MAX} bytes", line=1, column=1)
    if filename.endswith(".sql"):
        fields: dict[str, Any] = {"query": text, "name": pathlib.PurePath(filename).stem.lower()}
    else:
        fields = _read_toml(text)
    place = Places(text)
    place.refuse_unknown(fields, _FIELDS, "")
    query = place.text(fields, "query")
    if query is None:
        _refuse_below_table(place, fields)
        raise JobSpecError("the job has no query", hint='add query = """SELECT ..."""')
    joined = check_query(query)
    source = place.text(fields, "source")
    reads = "" if joined is not None else outline_of(query).source
    if source is not None and source != reads:
        found = repr(reads) if reads else "other jobs"
        raise place.error("source", f"source is {source!r}, but the query reads {found}")
    definition = Definition(
        name=name or place.text(fields, "name") or "",
        creator=place.text(fields, "creator") or creator or CREATOR_DEFAULT,
        source=reads,
        query=query if joined is None else "",
        joined=joined,
        columns=_columns(place, fields.get("columns", {})),
        options=_options(place, fields.get("options", {})),
        functions=read_functions(place, fields.get("functions", {}), fields.get("signed", {}), read),
    )
    if joined is not None:
        _check_joining(definition, place)
    if not definition.name:
        raise JobSpecError("the job has no name", hint='add name = "..."')
    for field in ("name", "creator"):
        if not NAME.fullmatch(getattr(definition, field)):
            raise place.error(
                field,
                f"{getattr(definition, field)!r} is no {field} of a job",
                "1 to 63 of a-z 0-9 . _ -, beginning with a letter or digit",
            )
    return definition


def _refuse_below_table(place: Places, fields: Mapping[str, Any]) -> None:
    """Refuse a query that stands below a table's header, and so is one of its keys."""
    for section, table in fields.items():
        if isinstance(table, dict) and "query" in table:
            raise place.error("query", f"the query is in [{section}]", "put it above the first table", section=section)


def check_query(query: str) -> Joined | None:
    """Check the form of a query; return what it is over other jobs, which are not looked up yet, None over a source.

    Raises:
        JobSpecError: it is neither, or has what such a query cannot have.
    """
    if reads_jobs(query):
        parse_joins(query)
        return Joined(query=query)
    outline_of(query)
    return None


def query_place(text: str) -> tuple[int, int]:
    """Where the query's text begins in a job file: (lines, columns) to add to a place in its first line.

    A place (line, column) inside the query is line + lines in the file; columns count only for line 1.
    """
    match = re.search(r"^\s*query\s*=\s*(\"\"\"|'''|\"|')(\r?\n)?", text, flags=re.MULTILINE)
    if match is None:
        return 0, 0
    return text.count("\n", 0, match.end()), match.end() - text.rfind("\n", 0, match.end()) - 1


def check_definition(definition: Definition) -> None:
    """Hold a definition that another agent sent to the rules that `load_definition` holds files to.

    Raises:
        JobSpecError: a name, a size or a type is not legal.
    """
    if not NAME.fullmatch(definition.name) or not NAME.fullmatch(definition.creator):
        raise JobSpecError("not a job definition: bad name or creator")
    if len(definition.query) > QUERY_BYTES_MAX or len(definition.columns) > COLUMNS_MAX:
        raise JobSpecError("not a job definition: it is too long")
    check_functions(definition.functions)
    if definition.functions and definition.joined is not None:
        raise JobSpecError("not a job definition: functions are called on events, and it has none")
    if not 0 <= definition.part < definition.options.trees:
        raise JobSpecError(f"not a job definition: of {definition.options.trees} trees there is none {definition.part}")
    try:
        _ = definition.types
        if definition.joined is not None:
            check_joined(definition.joined)
    except ValueError as error:
        raise JobSpecError(f"not a job definition: {error}") from None


def _read_toml(text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except TomlError as error:
        raise JobSpecError(error.message, line=error.line, column=error.column) from None


def changed_options(options: Options, changes: Mapping[str, str | int]) -> Options:
    """Return options of which some are as `[options]` of a job file would say.

    Raises:
        JobSpecError: one is unknown, or not possible.
    """
    return _options(Places(""), dict(changes), options)


def _options(place: Places, table: object, options: Options = OPTIONS_DEFAULT) -> Options:
    if not isinstance(table, dict):
        raise place.error("options", "options is a table", "[options]")
    place.refuse_unknown(table, (*_COUNTS, *_CHOICES, *DURATION_OPTIONS, "application"), "options")
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key in DURATION_OPTIONS:
            values[DURATION_OPTIONS[key]] = place.duration_ms(key, value)
        elif key in _COUNTS:
            values[key] = place.count(key, value, *_COUNTS[key])
        elif key == "application":
            values[key] = place.application(key, value)
        else:
            values[key] = place.choice(key, value, _CHOICES[key])
    options = msgspec.structs.replace(options, **values)
    if options.straggler == "mirror" and not options.holders:
        raise place.error("replicas", 'straggler = "mirror" needs at least one replica', section="options")
    if options.availability == "partial" and options.trees > 1:
        raise place.error("availability", 'availability = "partial" needs a job of one tree', section="options")
    if options.feedback and options.application:
        hint = "self.elf.publish(result.rows, of=result) in its on_result"
        raise place.error("feedback", "a job with an application has what that publishes", hint, section="options")
    return options


def _check_joining(definition: Definition, place: Places) -> None:
    """Refuse what a job over other jobs cannot keep: it has no keys of its own, and no events."""
    options = definition.options
    if definition.functions:
        raise place.error("functions", "functions are called on events, of which a job over other jobs has none")
    for option, usual in (("trees", 1), ("availability", "exact"), ("emit_every", None), ("interval", None)):
        if getattr(options, DURATION_OPTIONS.get(option, option)) != usual:
            raise place.error(option, f"a job over other jobs has no {option}: those jobs have", section="options")


def _columns(place: Places, table: object) -> dict[str, str]:
    if not isinstance(table, dict):
        raise place.error("columns", "columns is a table of names and types", '[columns]\nprice = "DOUBLE"')
    if len(table) > COLUMNS_MAX:
        raise place.error("columns", f"more than {COLUMNS_MAX} columns")
    columns: dict[str, str] = {}
    for key, value in table.items():
        try:
            columns[key] = SqlType.parse(value if isinstance(value, str) else str(value)).ddl
        except ValueError as error:
            close = did_you_mean(nearest(str(value).upper(), [kind.value for kind in SqlType])).lstrip("; ")
            raise place.error(key, str(error), close or None, section="columns") from None
    return columns
