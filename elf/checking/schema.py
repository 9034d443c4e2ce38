"""JSON Schema (2020-12) of configuration and job files, for editors; made of the very records that files are read into.

The `#:` lines above a field are its description. A schema knows the form only: relations between fields, names and SQL
are `elf validate`'s.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from elf.agents.jobs.definition import FILE_BYTES_MAX, NAME, REPLICAS_MAX, Options
from elf.agents.settings.config import AgentConfig
from elf.checking.validate import LOG_LEVELS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FIELD = re.compile(r"^    (\w+): ")
_COMMENT = re.compile(r"^    #: ?(.*)$")

Name = Annotated[str, msgspec.Meta(pattern=rf"^{NAME.pattern}$")]


def _options() -> type[msgspec.Struct]:
    """Make the form of `[options]`: as in `Options`, with durations as they are written."""
    fields: list[tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(Options):
        name, kind = field.name, field.type
        if name.endswith("_ms"):
            name, kind = name.removesuffix("_ms"), str
        elif name == "replicas":
            kind = Annotated[int, msgspec.Meta(ge=0, le=REPLICAS_MAX)]
        fields.append((name, kind, msgspec.UNSET))
    return msgspec.defstruct(
        "OptionsTable",
        [(name, kind | msgspec.UnsetType, usual) for name, kind, usual in fields],
        namespace={"__doc__": Options.__doc__},
        forbid_unknown_fields=True,
        kw_only=True,
    )


class FunctionTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A function of the job's own, in Python (docs/FUNCTIONS.md)."""

    #: Types of what it is called with, by their Spark names.
    args: list[str]
    #: Type of what it returns.
    returns: str
    #: It is not called, and NULL, where an argument is NULL.
    strict: bool = False
    #: Its text; or `file`, which lies beside the job's.
    source: str = ""
    file: str = ""


class SignedTable(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What `elf sign` adds."""

    #: The creator's public key.
    key: str = ""
    #: Function -> signature.
    signatures: dict[str, str] = {}
    #: Function -> its text.
    sources: dict[str, str] = {}


class JobFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A job (docs/JOBS.md)."""

    #: The job, in Spark SQL (docs/JOBS.md says which of it).
    query: Annotated[str, msgspec.Meta(max_length=FILE_BYTES_MAX)]
    #: What it is called; `elf publish --name` changes that.
    name: Name | msgspec.UnsetType = msgspec.UNSET
    #: Whose it is; unless set, the user who publishes it.
    creator: Name | msgspec.UnsetType = msgspec.UNSET
    #: The source that the query reads; it says so itself.
    source: str | msgspec.UnsetType = msgspec.UNSET
    #: Types of columns (Spark names) that are not to be found out from the source's lines.
    columns: dict[str, str] = {}
    #: How it runs.
    options: _options() = msgspec.UNSET  # type: ignore[valid-type]
    #: Functions of its own, by name.
    functions: dict[str, FunctionTable] = {}
    #: What `elf sign` adds.
    signed: SignedTable | msgspec.UnsetType = msgspec.UNSET


def schema_of(what: Literal["agent", "job"]) -> dict[str, Any]:
    """Return the schema of an agent's configuration file, or of a job file."""
    kind = AgentConfig if what == "agent" else JobFile
    schema = msgspec.json.schema(kind)
    found: dict[str, Any] = schema["$defs"]
    for each in _records(kind, {}).values():
        _describe(found[each.__name__], _comments(Options if each.__name__ == "OptionsTable" else each))
    if what == "agent":
        found["AgentSection"]["properties"]["log_level"]["enum"] = list(LOG_LEVELS)
        found["AgentConfig"]["properties"]["sources"]["propertyNames"] = {"pattern": f"^{NAME.pattern}$"}
    title = f"elf {'agent configuration' if what == 'agent' else 'job'}"
    return {"$schema": DIALECT, "title": title, **schema}


def _records(kind: Any, found: dict[str, type[msgspec.Struct]]) -> dict[str, type[msgspec.Struct]]:
    """Return all records that a type is made of, by name."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__name__ not in found:
        found[kind.__name__] = kind
        for field in msgspec.structs.fields(kind):
            _records(field.type, found)
    for inner in getattr(kind, "__args__", ()):
        _records(inner, found)
    return found


def _describe(schema: dict[str, Any], comments: Mapping[str, str]) -> None:
    for name, described in schema["properties"].items():
        comment = comments.get(name) or comments.get(f"{name}_ms")
        if comment:
            described["description"] = comment


def _comments(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return what `#:` lines say of a record's fields; of several fields in a row what they say is of all."""
    found: dict[str, str] = {}
    lines: list[str] = []
    is_over = False
    for line in inspect.getsource(kind).splitlines():
        if comment := _COMMENT.match(line):
            lines = [*([] if is_over else lines), comment[1]]
            is_over = False
        elif field := _FIELD.match(line):
            found[field[1]] = " ".join(lines)
            is_over = True
        elif not line.strip():
            lines = []
    return found
