"""A job's file, written from its definition: what was published, as a person would keep it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from elf.agents.jobs.definition import DURATION_OPTIONS, OPTIONS_DEFAULT, Definition, Options
from elf.agents.jobs.own_functions_table import signed_table
from elf.agents.language.durations import duration
from elf.agents.toml.literals import key, quoted

#: What a literal text of TOML's cannot have in it, or would not give back.
_NOT_LITERAL = re.compile(r"'''|'\Z|[\x00-\x08\x0b-\x1f\x7f]")


def text_of(definition: Definition) -> str:
    """Return a job file that `load_definition` reads as the same job, in its first version and first part."""
    return "\n".join(_lines(definition)) + "\n"


def _lines(definition: Definition) -> Iterator[str]:
    yield f"name = {quoted(definition.name)}"
    yield f"creator = {quoted(definition.creator)}"
    query = definition.text
    yield f"query = {quoted(query)}" if _NOT_LITERAL.search(query) else f"query = '''\n{query}'''"
    if options := list(_options(definition.options)):
        yield from ("", "[options]", *options)
    if definition.columns:
        yield from ("", "[columns]", *(f"{key(name)} = {quoted(kind)}" for name, kind in definition.columns.items()))
    for function in definition.functions:
        yield from ("", f"[functions.{key(function.name)}]", f"args = {json.dumps(function.args)}")
        yield f"returns = {quoted(function.returns)}"
        if function.strict:
            yield "strict = true"
        if not function.signature:
            yield f"source = {quoted(function.source)}"
    if signed := [function for function in definition.functions if function.signature]:
        yield signed_table(signed)


def _options(options: Options) -> Iterator[str]:
    """Yield what is not as it is by default."""
    written = {field: name for name, field in DURATION_OPTIONS.items()}
    for field in Options.__struct_fields__:
        value = getattr(options, field)
        if value == getattr(OPTIONS_DEFAULT, field):
            continue
        yield f"{written.get(field, field)} = {quoted(duration(value)) if field in written else json.dumps(value)}"
