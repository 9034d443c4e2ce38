"""Jobs that read the results of other jobs: `FROM job('shop/clicks') c JOIN job('shop/bundles') b ON c.product = b.a`.

Such a job reads no source. Of each window it takes the results of the jobs it names, of the very same window, joins
them and makes rows of that; what is aggregated, those jobs aggregate. Owns the shape of such a query; what it means is
`combining`'s. Paper: section 2.1, applications that join the intermediate results of others (Route).
"""

from __future__ import annotations

import functools
import re
from typing import Literal, NamedTuple

import msgspec
from sqlglot import exp

from elf.agents.language.dialect import QUERY_BYTES_MAX, JobSql, parse_statement, refused
from elf.agents.language.join_form import join_form
from elf.agents.language.query import (
    OUTPUTS_MAX,
    Item,
    check_clauses,
    condition_of,
    items_of,
    limit_of,
    order_of,
    select_of,
)
from elf.agents.language.types import parse_type

#: Other jobs that one job may read: each is asked for each result.
USES_MAX = 8
_KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}/[a-z0-9][a-z0-9._-]{0,62}")
_CLAUSES = {"expressions", "from_", "joins", "where", "order", "limit"}


class Use(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job whose results another one reads, as it was when that one was published.

    Attributes:
        job: `creator/name`.
        window: (size_ms, slide_ms).
        columns: its output columns -> DDL type, in their order.
    """

    job: str
    window: tuple[int, int]
    columns: dict[str, str]


class Joined(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a job makes of the results of others: the query as written, and the jobs that it names, in their order.

    There are none before they are looked up, which publishing does.
    """

    query: str
    uses: tuple[Use, ...] = ()


class Read(NamedTuple):
    """A job that a query names, the name that its columns go by, and how it is joined to those before it."""

    job: str
    alias: str
    node: exp.Expr
    how: Literal["first", "inner", "left"]
    #: Pairs of columns that are to be equal, as written.
    on: tuple[exp.EQ, ...]


class JoinQuery(msgspec.Struct, frozen=True):
    """A query over other jobs, taken apart; expressions are unchecked."""

    select: exp.Select
    reads: tuple[Read, ...]
    items: tuple[Item, ...]
    where: exp.Expr | None
    order: tuple[exp.Ordered, ...]
    limit: int | None


@functools.lru_cache(maxsize=256)
def reads_jobs(text: str) -> bool:
    """Tell whether a query reads other jobs; of the texts asked for last it is known. JobSpecError on no statement."""
    tree = parse_statement(text)
    origin = tree.args.get("from_")
    return origin is not None and _job_call(origin.this) is not None


def parse_joins(text: str) -> JoinQuery:
    """Take a query over other jobs apart.

    Raises:
        JobSpecError: it is none, or has what such a query cannot have.
    """
    tree = select_of(text)
    where = "a query over other jobs: what is to be aggregated, a job that it reads has to aggregate"
    check_clauses(tree, _CLAUSES, where)
    origin = tree.args.get("from_")
    if origin is None:
        raise refused(tree, "the query reads no job", "FROM job('creator/name')")
    reads = [_read(origin.this, "first", ())]
    for join in tree.args.get("joins") or ():
        reads.append(_joined(join))
    if len(reads) > USES_MAX:
        raise refused(reads[USES_MAX].node, f"a query reads at most {USES_MAX} jobs")
    for number, read in enumerate(reads):
        if read.alias in {before.alias for before in reads[:number]}:
            raise refused(read.node, f"two jobs go by the name {read.alias!r}", "give one another name with AS")
    return JoinQuery(
        select=tree,
        reads=tuple(reads),
        items=items_of(tree),
        where=condition_of(tree, "where"),
        order=order_of(tree),
        limit=limit_of(tree),
    )


def clock_query(source: str, window: tuple[int, int]) -> str:
    """Return the query that the agents of a job over other jobs run: it keeps no event, and closes windows in time."""
    size, slide = (exp.Literal.string(f"{length_ms} milliseconds") for length_ms in window)
    run = exp.Anonymous(this="window", expressions=[exp.column("ts"), size, slide])
    kept = exp.select(exp.alias_(exp.Literal.number(1), "one")).from_(exp.to_identifier(source, quoted=True))
    return kept.where(exp.false()).group_by(run).sql(dialect=JobSql)


def check_joined(joined: Joined) -> None:
    """Refuse what another agent sent that is no query over jobs that were looked up.

    Raises:
        ValueError: a name, a size or a type is not legal.
    """
    if not 1 <= len(joined.uses) <= USES_MAX:
        raise ValueError(f"it reads {len(joined.uses)} jobs, and should 1 to {USES_MAX}")
    if len(joined.query) > QUERY_BYTES_MAX:
        raise ValueError("its query is too long")
    for use in joined.uses:
        if not is_job_key(use.job) or len(use.columns) > OUTPUTS_MAX or not all(each > 0 for each in use.window):
            raise ValueError("one of the jobs that it reads cannot be")
        for kind in use.columns.values():
            parse_type(kind)


def is_job_key(text: str) -> bool:
    """Tell whether a text is `creator/name`."""
    return _KEY.fullmatch(text) is not None


def _job_call(table: object) -> exp.Expr | None:
    call = table.this if isinstance(table, exp.Table) else None
    return call if isinstance(call, exp.Anonymous) and call.name.lower() == "job" else None


def _read(table: exp.Expr, how: Literal["first", "inner", "left"], on: tuple[exp.EQ, ...]) -> Read:
    call = _job_call(table)
    hint = "job('creator/name')"
    if call is None:
        raise refused(table, "a job reads either one source, or other jobs, not both", hint)
    arguments = call.expressions
    if len(arguments) != 1 or not isinstance(arguments[0], exp.Literal) or not arguments[0].is_string:
        raise refused(call, "job takes one job by name, in quotes", hint)
    if not is_job_key(arguments[0].name):
        raise refused(arguments[0], f"{arguments[0].name!r} is no name of a job", hint)
    extra = [part for name, part in table.args.items() if part and name not in ("this", "alias")]
    alias = table.args.get("alias")
    if extra or (alias is not None and alias.args.get("columns")):
        raise refused(table, "a job has a name after AS, and nothing else", f"{hint} AS c")
    key = arguments[0].name
    return Read(key, table.alias.lower() or key.partition("/")[2].lower(), table, how, on)


def _joined(join: exp.Expr) -> Read:
    how, pairs = join_form(join, "jobs", "JOIN job('creator/name') b ON a.key = b.key")
    return _read(join.this, how, pairs)
