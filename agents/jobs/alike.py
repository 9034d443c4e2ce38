"""What makes plans alike: a value of each filter and of each map side, equal where these mean the same. Pure.

Plans keep digests, for what they are made of takes as much memory as all the rest of a plan; and jobs are compared with
each other for each frame of events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from sqlglot import exp

from elf.agents.language.canonical import canonical
from elf.agents.language.own_functions import OwnFunction
from elf.agents.language.types import SqlType


def filter_key(
    where: exp.Expr | None, columns: Mapping[str, SqlType], functions: Sequence[OwnFunction] = ()
) -> bytes | None:
    """Return a value equal for filters that keep the same events.

    Args:
        where: the condition.
        columns: the raw columns that it reads.
        functions: those that the job brings along; who runs them differs from job to job, so no other job's filter is
            equal then.

    Returns:
        None if there is no filter, or none that another job could share.
    """
    if where is None or functions:
        return None
    return _digest((_types(columns), canonical(where)))


def map_key(
    where: exp.Expr | None,
    groups: Sequence[exp.Expr],
    calls: Mapping[str, exp.Expr],
    columns: Mapping[str, SqlType],
    functions: Sequence[OwnFunction],
) -> bytes:
    """Return a value equal for map sides that make the same PAOs of the same events, and name their columns alike.

    Args:
        where: the row filter.
        groups: the group keys, in the order of the schema's.
        calls: the call of each aggregate, by its name.
        columns: the raw columns that are read.
        functions: those that the job brings along; equal ones compute the same, whoever signed them.
    """
    computed = [(each.name, each.args, each.returns, each.strict, each.source) for each in functions]
    keys = [canonical(node) for node in groups]
    aggregates = [(name, canonical(call)) for name, call in calls.items()]
    return _digest((_types(columns), None if where is None else canonical(where), keys, aggregates, computed))


def _types(columns: Mapping[str, SqlType]) -> list[tuple[str, str]]:
    return sorted((name, kind.ddl) for name, kind in columns.items())


def _digest(meant: object) -> bytes:
    """Digest nested sequences of texts and numbers: what is different is written differently."""
    return hashlib.sha256(repr(meant).encode()).digest()
