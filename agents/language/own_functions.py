"""Functions that a job brings along: Python source, declared types, and its creator's signature. Pure.

Owns what they look like in a definition and what they mean in a query; who may run them, and where, is up to
`elf.agents.extensions.signed`. They are called on events only: in WHERE, in group keys and in what is aggregated. No
master runs one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Protocol

import msgspec
import polars as pl

from elf.agents.errors import JobSpecError
from elf.agents.language.types import SqlType

NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
#: Of one job: they travel with its record, and with each of the versions that it remembers.
FUNCTIONS_MAX, SOURCES_BYTES_MAX = 8, 16 << 10
#: More arguments than any function needs.
ARGS_MAX = 32
#: An Ed25519 key has 32 bytes and a signature 64, as base64.
KEY_CHARS, SIGNATURE_CHARS = 44, 88
#: Of the public key's SHA-256.
_FINGERPRINT_CHARS = 16


class OwnFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A function of a job's own.

    Attributes:
        name: as the query calls it, in any case.
        args: the SQL types of its arguments.
        returns: the SQL type of its answer.
        strict: NULL if any argument is, without a call; else it is called with None.
        source: Python that defines a function of this name.
        key: the public key it is signed with, base64; empty while it is not signed.
        signature: over all of this, the job's name and its creator, base64; empty while it is not signed.
    """

    name: Annotated[str, msgspec.Meta(max_length=63)]
    args: Annotated[tuple[str, ...], msgspec.Meta(max_length=ARGS_MAX)]
    returns: str
    strict: bool = False
    source: Annotated[str, msgspec.Meta(max_length=SOURCES_BYTES_MAX)]
    key: Annotated[str, msgspec.Meta(max_length=KEY_CHARS)] = ""
    signature: Annotated[str, msgspec.Meta(max_length=SIGNATURE_CHARS)] = ""

    @property
    def types(self) -> tuple[SqlType, ...]:
        """The types of its arguments; raises ValueError where one is no type, which `check_functions` rules out."""
        return tuple(map(SqlType.parse, self.args))


def fingerprint(key: str) -> str:
    """Return a short name of a public key, for people to compare; "" if there is none."""
    return hashlib.sha256(key.encode()).hexdigest()[:_FINGERPRINT_CHARS] if key else ""


#: Calls a function: columns of equal length, of the declared types, to one of them.
Call = Callable[[Sequence[pl.Series]], pl.Series]


class Admits(Protocol):
    """Decides whether a definition's functions may run here."""

    def __call__(self, creator: str, job: str, functions: Sequence[OwnFunction]) -> Sequence[Call]:
        """Return what calls each of them, in this order.

        Raises:
            JobSpecError: they may not run here; the text names the creator and says why.
        """
        ...


def check_functions(functions: Sequence[OwnFunction]) -> None:
    """Hold functions to the rules for names, types and sizes.

    Raises:
        JobSpecError: one breaks them.
    """
    if len(functions) > FUNCTIONS_MAX:
        raise JobSpecError(f"a job has {FUNCTIONS_MAX} functions of its own at most, not {len(functions)}")
    if sum(len(each.source.encode("utf-8", "surrogatepass")) for each in functions) > SOURCES_BYTES_MAX:
        raise JobSpecError(f"the sources of a job's functions have more than {SOURCES_BYTES_MAX} bytes together")
    for index, function in enumerate(functions):
        check_function(function)
        if any(function.name == other.name for other in functions[:index]):
            raise JobSpecError(f"two functions of the job are named {function.name}")


def check_function(function: OwnFunction) -> None:
    """Hold one function to the rules for names and types; raises JobSpecError."""
    name = function.name
    if NAME.fullmatch(name) is None:
        raise JobSpecError(f"{name!r} is no name of a function: 1 to 63 of a-z 0-9 _, beginning with a letter or _")
    if not 1 <= len(function.args) <= ARGS_MAX:
        raise JobSpecError(f'{name}: args is a list of 1 to {ARGS_MAX} SQL types, such as ["STRING", "BIGINT"]')
    try:
        _ = function.types, SqlType.parse(function.returns)
    except ValueError as error:
        raise JobSpecError(f"{name}: {error}") from None
    if "\0" in function.source or not function.source.strip():
        raise JobSpecError(f"{name} has no source")
    try:
        function.source.encode()
    except UnicodeEncodeError:
        raise JobSpecError(f"the source of {name} is no text") from None


def bound(
    creator: str, job: str, functions: Sequence[OwnFunction], admits: Admits | None
) -> dict[str, tuple[OwnFunction, Call]]:
    """Return a job's own functions by name, and what calls them here.

    Raises:
        JobSpecError: a name has a meaning already, or they may not run here.
    """
    if not functions:
        return {}
    # What is installed is found when a job first calls a function that is not built in.
    from elf.agents.language.installed.installed import check_own_name

    for each in functions:
        check_own_name(each.name)
    calls = map(_unsettled, functions) if admits is None else admits(creator, job, functions)
    return {each.name: (each, call) for each, call in zip(functions, calls, strict=True)}


def _unsettled(function: OwnFunction) -> Call:
    """Return what stands for a function where no events are: while a job is only checked, or answered for."""

    def call(columns: Sequence[pl.Series]) -> pl.Series:
        raise JobSpecError(f"the function {function.name} cannot be called here")

    return call


def called(function: OwnFunction, call: Call, arguments: Sequence[pl.Expr]) -> pl.Expr:
    """Build the expression that calls a function for each row.

    Args:
        function: what is called.
        call: calls it; never for no rows at all.
        arguments: of the types that it takes.
    """
    dtype = SqlType.parse(function.returns).dtype

    def run(rows: pl.Series) -> pl.Series:
        if not rows.len():
            return pl.Series(rows.name, [], dtype)
        return call([rows.struct.field(f"{index}") for index in range(len(arguments))]).alias(rows.name)

    # A struct makes constants as long as columns.
    rows = pl.struct(argument.alias(f"{index}") for index, argument in enumerate(arguments))
    return rows.map_batches(run, return_dtype=dtype, is_elementwise=True)
