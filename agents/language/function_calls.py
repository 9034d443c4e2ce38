"""Calls of scalar functions: of the language's tables first, then of what is installed.

Importing this module fills the tables: whoever only starts an agent imports it when the first job is compiled.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from elf.agents.errors import did_you_mean, nearest
from elf.agents.language.aggregate_facts import AGGREGATES
from elf.agents.language.dialect import refused
from elf.agents.language.functions import Call, Entry, find, function_names, refusal
from elf.agents.language.functions.registry import MANY
from elf.agents.language.installed.calls import evaluated
from elf.agents.language.installed.installed import installed
from elf.agents.language.query import is_aggregate, is_window_call, parse_query
from elf.agents.language.values import Value


def call_function(name: str, node: exp.Expr, arguments: list[Value]) -> Value:
    """Compile a call.

    Raises:
        JobSpecError: there is no such function, or it does not take these arguments.
    """
    check_function(name, node)
    entry = find(name.lower()) or _installed(name.lower())
    if not entry.least <= len(arguments) <= entry.most:
        count = str(entry.least) if entry.least == entry.most else f"{entry.least} to {entry.most}"
        if entry.most == MANY:
            count = f"at least {entry.least}"
        raise refused(node, f"{name}() takes {count} argument(s), not {len(arguments)}")
    return entry.evaluate(Call(name, node, arguments))


def check_function(name: str, node: exp.Expr) -> None:
    """Check that there is such a function, before its arguments are looked at.

    Raises:
        JobSpecError: there is none; says why, or which is meant.
    """
    if find(name.lower()) is not None:
        return
    if (reason := refusal(name.lower())) is not None:
        raise refused(node, f"{name}() is not in the job language: {reason}")
    found = installed()
    if name.lower() in found.functions:
        return
    if name.lower() in found.refused:
        raise refused(node, f"{name}() is installed here and cannot be used: {found.refused[name.lower()]}")
    close = did_you_mean(nearest(name.lower(), (*function_names(), *AGGREGATES, *found.names))).lstrip("; ")
    raise refused(
        node, f"{name}() is not in the job language, and no function of that name is installed", close or None
    )


def check_calls(query: str, own: Collection[str]) -> None:
    """Check that there is each function that a query calls, before the type of any column is known.

    Args:
        query: the text of one over a source.
        own: names in lower case of those that the job brings along.

    Raises:
        JobSpecError: there is none of some name; says why, or which is meant.
    """
    for call in parse_query(query).select.find_all(exp.Anonymous):
        name = call.name.lower()
        if isinstance(call.parent, exp.Window):
            raise refused(call, f"{call.name}() OVER (...) is not in the job language: jobs count groups, not rows")
        if not (is_window_call(call) or is_aggregate(name) or name in own):
            check_function(call.name, call)


def _installed(name: str) -> Entry:
    """The entry of an installed function; there has to be one."""
    made = installed().functions[name]

    def run(call: Call) -> Value:
        taken = [call.take(index, kind).expr for index, kind in enumerate(made.args)]
        return call.value(evaluated(name, made, taken), made.returns)

    return Entry(len(made.args), len(made.args), run)
