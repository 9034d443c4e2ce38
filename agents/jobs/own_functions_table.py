"""How functions of a job's own are written in its file: `[functions.NAME]`, and the signatures in `[signed]`. Pure.

A signed file is the file with a table more at its end, so places in it stay what they were, and whoever publishes it
needs no key.
"""

from __future__ import annotations

import symtable
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from elf.agents.errors import JobSpecError
from elf.agents.language.own_functions import OwnFunction, check_functions
from elf.agents.language.places import Places
from elf.agents.language.types import SqlType
from elf.agents.toml.literals import quoted

#: Returns the text of a file that lies beside the job's.
Read = Callable[[str], str]

_FIELDS = ("args", "returns", "strict", "source", "file")
_SIGNED = ("key", "signatures", "sources")


def read_functions(place: Places, table: object, signed: object, read: Read | None) -> tuple[OwnFunction, ...]:
    """Return the functions of a job file, by name.

    Args:
        place: finds places in the file.
        table: its `functions`.
        signed: its `signed`.
        read: reads the files that functions are in; None: those have to be in `signed`.

    Raises:
        JobSpecError: a function, or what it is signed with, is not written right.
    """
    if not isinstance(table, dict) or not all(isinstance(each, dict) for each in table.values()):
        raise place.error("functions", "functions is a table of tables", "[functions.NAME]")
    if not isinstance(signed, dict):
        raise place.error("signed", "signed is a table, which `elf sign` makes")
    place.refuse_unknown(signed, _SIGNED, "signed")
    key, signatures, sources = signed.get("key", ""), signed.get("signatures", {}), signed.get("sources", {})
    if not isinstance(key, str) or not _has_texts(signatures) or not _has_texts(sources):
        raise place.error("signed", "signed has a key, and tables of signatures and sources", "let `elf sign` make it")
    if len(key) > 64 or any(len(each) > 128 for each in signatures.values()):
        raise place.error("signed", "the key or a signature is too long", "let `elf sign` make it")
    functions = []
    for name, fields in table.items():
        section = f"functions.{name}"
        place.refuse_unknown(fields, _FIELDS, section)
        source = sources[name] if name in sources else _source(place, section, fields, read)
        if read is not None:
            _check_source(place, section, name, "file" if "file" in fields else "source", source)
        strict = fields.get("strict", False)
        if not isinstance(strict, bool):
            raise place.error("strict", "strict is true or false", section=section)
        functions.append(
            OwnFunction(
                name=name,
                args=tuple(_types(place, section, fields.get("args"))),
                returns=_type(place, section, "returns", fields.get("returns")),
                strict=strict,
                source=source,
                key=key if name in signatures else "",
                signature=signatures.get(name, ""),
            )
        )
    try:
        check_functions(functions)
    except JobSpecError as error:
        raise place.error("functions", error.message) from None
    return tuple(sorted(functions, key=lambda each: each.name))


def signed_table(functions: Sequence[OwnFunction]) -> str:
    """Return what a job file is signed with: to be put at its end."""
    key = functions[0].key
    lines = ["", "", "[signed]", f"key = {quoted(key)}", "[signed.signatures]"]
    lines += [f"{each.name} = {quoted(each.signature)}" for each in functions]
    lines += ["[signed.sources]", *(f"{each.name} = {quoted(each.source)}" for each in functions), ""]
    return "\n".join(lines)


def _source(place: Places, section: str, fields: Mapping[str, Any], read: Read | None) -> str:
    source, file = fields.get("source"), fields.get("file")
    if (source is None) == (file is None) or not isinstance(file if source is None else source, str):
        raise place.error("source", f"{section} has either a source or a file, in quotes", section=section)
    if isinstance(source, str):
        return source
    if read is None:
        raise place.error(
            "file",
            f"{section} is not signed, so its file {file!r} does not come with the job",
            "publish the job with --key, which signs it, or sign it with `elf sign`",
            section=section,
        )
    return read(str(file))


def _check_source(place: Places, section: str, name: str, key: str, source: str) -> None:
    """Find what no agent could run. Only for a source of one's own: Python's compiler is not made for hostile ones."""
    try:
        symbols = symtable.symtable(source, name, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        at = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
        message = (
            f"the source of {name} is not Python: {at}{error.args[0] if error.args else 'it is nested too deeply'}"
        )
        raise place.error(key, message, section=section) from None
    if name not in symbols.get_identifiers() or not symbols.lookup(name).is_local():
        message = f"the source of {name} defines no function {name}"
        raise place.error(key, message, f"def {name}(...):", section=section)


def _types(place: Places, section: str, value: object) -> list[str]:
    if not isinstance(value, list) or not value:
        raise place.error("args", "args is a list of SQL types", 'args = ["STRING"]', section=section)
    return [_type(place, section, "args", each) for each in value]


def _type(place: Places, section: str, key: str, value: object) -> str:
    try:
        return SqlType.parse(value if isinstance(value, str) else str(value)).value
    except ValueError as error:
        raise place.error(key, f"{key}: {error}", section=section) from None


def _has_texts(table: object) -> bool:
    return isinstance(table, dict) and all(isinstance(each, str) for each in table.values())
