"""What a job does, told from its plan: what is read, reduced, merged and answered, and by whom. Pure.

Fields are stable: programs read them (`elf explain` in a pipe). Where a column's type is not known, as in a job file
that no agent has seen, what hangs on that type is None, and `unknown` says so.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from elf.agents.errors import JobSpecError
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import Plan, Syntax, compile_job, syntax_of
from elf.agents.jobs.steps import steps_of
from elf.agents.language.dialect import written
from elf.agents.language.last_result import Last, has_last
from elf.agents.language.own_functions import OwnFunction, fingerprint
from elf.agents.language.query import Query, columns_read, is_window_field, parse_query
from elf.agents.language.required_text import conjuncts
from elf.agents.language.types import SqlType

Json = dict[str, Any]
#: Types are guessed so often before it is said that they are needed: a second or so.
GUESSES_MAX = 300
_TYPES = {kind.dtype: kind.ddl for kind in SqlType}
#: What only a running job has.
RUNNING = ("state", "master", "version", "versions", "sharing", "tree", "cost")


def explain_plan(plan: Plan) -> Json:
    """Describe a compiled job.

    Returns:
        job, source, query, last_result (how it is joined, None if it is not: join, filter, keys),
        joins (other jobs that it reads), options, columns read (name, type), functions that it
        brings along (name, args, returns, and key: a short name of the one they are signed with, None if they are not),
        prefilter (texts that every wanted line contains), filter, keys (column, expression, type), aggregates (column,
        expression, aggregate, inverse, and the PAO columns states and slots), windows (how they are made: `difference`,
        `merged`, `pane` or `total`), window, interval_ms, lateness_ms, leap_after_ms, retain_ms, straggler, copies (at
        neighbours), having, order, limit, output, steps (sentences by place), unknown (sentences), and those of
        `RUNNING`, which are None.
    """
    return _finished(_facts(plan), ())


def explain_definition(definition: Definition) -> Json:
    """Describe a job that was not published: with the types it declares, and without what hangs on others.

    Raises:
        JobSpecError: the job cannot run as written, or nothing can be told without the missing types.
    """
    if definition.joined is not None and not definition.joined.uses:
        raise JobSpecError("what the jobs that it reads give is known once it is published", hint="elf explain NAME")
    declared = {name.lower(): kind for name, kind in definition.columns.items()}
    missing = [name for name in columns_read(definition.query) if name.lower() not in declared]
    plans = _plans_of_any_type(definition, missing) if missing else [compile_job(definition, definition.types)]
    facts: Json = _agreed([_facts(plan) for plan in plans])
    # Where only one type works and it is not declared, it is a guess all the same.
    facts["columns"] = [{"name": name, "type": declared.get(name.lower())} for name in plans[0].columns]
    explained = _finished(facts, missing)
    explained["unknown"].append("what it shares with other jobs, its tree and its cost: it is not published")
    return explained


def _finished(facts: Json, missing: Sequence[str]) -> Json:
    """Add what follows from facts: sentences, and what is not known."""
    hint = "declare them under [columns], or publish it: its source may tell them"
    unknown = [f"the types of {', '.join(missing)}: {hint}"] if missing else []
    if facts["prefilter"] is None:
        unknown.append("the texts without which a line is skipped unparsed: they hang on these types")
    unsure = [each["expression"] for each in facts["aggregates"] if each["inverse"] is None]
    if unsure:
        unknown.append(f"whether {' and '.join(unsure)} can be taken out again: that hangs on these types")
    return {**facts, "steps": steps_of(facts), "unknown": unknown, **dict.fromkeys(RUNNING)}


def _facts(plan: Plan) -> Json:
    definition, query, syntax = plan.definition, parse_query(plan.definition.query), syntax_of(plan)
    options, shown = definition.options, query if plan.joined is None else plan.joined.query
    return {
        "job": definition.first.key,
        "source": plan.source,
        "query": definition.text,
        "last_result": None if query.last is None else _last(query, query.last),
        "joins": [] if definition.joined is None else [use.job for use in definition.joined.uses],
        "options": msgspec.to_builtins(options),
        "columns": _columns(plan),
        "functions": [_own(each) for each in definition.functions],
        "prefilter": list(plan.literals),
        "filter": None if syntax.where is None else written(syntax.where),
        "keys": _keys(plan, syntax),
        "aggregates": _aggregates(plan, syntax),
        "windows": _windows(plan),
        "window": None if plan.window is None else plan.window._asdict(),
        "interval_ms": plan.interval_ms,
        "lateness_ms": options.lateness_ms,
        "leap_after_ms": plan.leap_after_ms,
        "retain_ms": None if plan.window is None else plan.retained * plan.interval_ms,
        "straggler": options.straggler,
        "copies": options.holders,
        "having": None if query.having is None else written(query.having),
        "order": [written(node) for node in shown.order],
        "limit": shown.limit,
        "output": [{"name": name, "type": kind.ddl} for name, kind in plan.output],
    }


def _last(query: Query, last: Last) -> Json:
    mixed = [written(part) for part in conjuncts(query.where) if has_last(part)] if query.where is not None else []
    keys = [written(node) for node in query.groups if not is_window_field(node)]
    return {"join": written(last.node).strip(), "filter": " AND ".join(mixed) or None, "keys": keys}


def _columns(plan: Plan) -> list[Json]:
    return [{"name": name, "type": kind.ddl} for name, kind in plan.columns.items()]


def _own(function: OwnFunction) -> Json:
    signed = fingerprint(function.key) or None
    return {"name": function.name, "args": list(function.args), "returns": function.returns, "key": signed}


def _keys(plan: Plan, syntax: Syntax) -> list[Json]:
    pairs = zip(plan.schema.keys, syntax.groups, strict=True)
    return [{"column": name, "expression": written(node), "type": _ddl(dtype)} for (name, dtype), node in pairs]


def _aggregates(plan: Plan, syntax: Syntax) -> list[Json]:
    def columns(types: Mapping[str, pl.DataType]) -> list[Json]:
        return [{"name": name, "type": _ddl(dtype)} for name, dtype in types.items()]

    return [
        {
            "column": name,
            "expression": written(syntax.calls[name]),
            "aggregate": each.kind,
            "inverse": each.invertible,
            "states": columns(each.states(name)),
            "slots": columns(each.slots(name)),
        }
        for name, each in plan.schema.aggregates
    ]


def _windows(plan: Plan) -> str:
    if plan.window is None:
        return "total"
    if plan.window.size_ms == plan.interval_ms:
        return "pane"
    return "difference" if plan.schema.invertible else "merged"


def _ddl(dtype: pl.DataType) -> str:
    return _TYPES.get(dtype, "BINARY" if dtype == pl.Binary else str(dtype).upper())


def _plans_of_any_type(definition: Definition, missing: Sequence[str]) -> list[Plan]:
    """Compile with types for the missing columns: one set that works, and of each column each type that does then."""
    from elf.agents.language.function_calls import check_calls

    check_calls(definition.query, {each.name for each in definition.functions})
    known = definition.types
    errors: list[JobSpecError] = []

    def compiled(guess: Mapping[str, SqlType]) -> Plan | None:
        try:
            return compile_job(definition, {**guess, **known})
        except JobSpecError as error:
            errors.append(error)
            return None

    rng, kinds = random.Random(0), list(SqlType)
    guesses = [dict.fromkeys(missing, kind) for kind in (SqlType.STRING, *kinds)]
    guesses += [{name: rng.choice(kinds) for name in missing} for _ in range(GUESSES_MAX)]
    for guess in guesses:
        if (plan := compiled(guess)) is not None:
            others = [{**guess, name: kind} for name in missing for kind in kinds if kind is not guess[name]]
            return [plan, *(found for each in others if (found := compiled(each)) is not None)]
    if len({str(error) for error in errors}) == 1:
        raise errors[0]  # it is wrong whatever the types are
    raise JobSpecError(
        f"without types for {', '.join(missing)} nothing can be told", hint=f'[columns]\n{missing[0]} = "STRING"'
    )


def _agreed(facts: Sequence[Any]) -> Any:
    """Return what all say, and None for what they do not."""
    first = facts[0]
    if isinstance(first, dict) and all(isinstance(each, dict) and each.keys() == first.keys() for each in facts):
        return {name: _agreed([each[name] for each in facts]) for name in first}
    if isinstance(first, list) and all(isinstance(each, list) and len(each) == len(first) for each in facts):
        parts = [_agreed(parts) for parts in zip(*facts, strict=True)]
        # Texts stand for themselves; of records, those fields are known that are the same.
        return None if any(part is None for part in parts) else parts
    return first if all(each == first for each in facts) else None
