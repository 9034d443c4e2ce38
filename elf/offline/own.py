"""Functions that a job brings along, on their way to Spark: whose they are, and whether the user trusts them.

What calls one on Spark is made of `Own`, and only `Trusted.admit` makes one that has functions: what is not signed by
somebody whom the user has named goes nowhere. How they run there is `elf.offline.confined`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from elf.agents.errors import JobError
from elf.agents.extensions.signed.runners import Trust
from elf.agents.language.own_functions import OwnFunction, bound, check_functions
from elf.agents.language.types import SqlType
from elf.client.results import Function
from elf.offline.confined import OwnCall
from elf.offline.functions import in_python
from elf.offline.session import OfflineError

if TYPE_CHECKING:
    from pyspark.sql import Column

#: How Spark hands a value over, and takes it back.
_CROSSING = {SqlType.TIMESTAMP: "bigint", SqlType.DATE: "int"}
#: A creator, and a public key of it, base64.
Key = tuple[str, str]
#: A function as a master tells of it, or as a definition has it.
Brought = Function | OwnFunction


@dataclasses.dataclass(frozen=True)
class Own:
    """The functions of one version of a job, which may run.

    Attributes:
        job: `creator/name`.
        functions: in the order that their process knows them by.
    """

    job: str
    functions: tuple[OwnFunction, ...]

    def find(self, name: str) -> int | None:
        """Return the place of a function by its name in lower case; None if there is none."""
        return next((index for index, each in enumerate(self.functions) if each.name == name), None)


#: Of a job that brings none along.
NONE = Own("", ())


class Trusted:
    """Whose functions may run on Spark: nobody's, unless the user says so.

    Args:
        keys: whom the user trusts; a creator may have had several keys.

    Raises:
        JobError: one is no key.
    """

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys = list(dict.fromkeys(keys))
        for key in self._keys:
            self._trust(key)

    def admit(self, creator: str, job: str, functions: Sequence[Brought]) -> Own:
        """Return functions of a version of a job as Spark may run them.

        Raises:
            JobSpecError: they may not run: the user does not trust them, or this machine cannot confine them.
            JobError: the agent has not told all that there is to know of them.
        """
        if not functions:
            return NONE
        try:
            whole = msgspec.convert(msgspec.to_builtins(list(functions)), tuple[OwnFunction, ...])
        except msgspec.ValidationError as error:
            raise JobError(f"the agent's description of {creator}/{job}'s functions is incomplete: {error}") from None
        check_functions(whole)
        theirs = [key for key in self._keys if key[0] == creator]
        used = [key for key in theirs if key[1] == whole[0].key]
        self._trust(*(used or theirs)[:1]).check(creator, job, whole)
        # The names that agents refuse, too.
        bound(creator, job, whole, None)
        return Own(f"{creator}/{job}", whole)

    def _trust(self, *keys: Key) -> Trust:
        return Trust(
            dict(keys),
            who="Spark",
            unlisted="give its public key, as agents' settings list it, with --trust {creator}=PUBLICKEY",
            other="; if both are, give --trust {creator}=PUBLICKEY for each of them",
        )


def own_column(own: Own, index: int, arguments: Sequence[Column], failing: Literal["null", "tell"]) -> Column:
    """Call a function of a job's own for each row; the job was compiled, so the number of arguments is right."""
    from pyspark.sql import functions as F

    function = own.functions[index]
    inputs = [_given(column, kind) for column, kind in zip(arguments, function.types, strict=True)]
    returns = SqlType.BOOLEAN if failing == "tell" else SqlType.parse(function.returns)
    called = in_python(
        OwnCall(own.job, own.functions, index, failing), _CROSSING.get(returns, returns.ddl.lower()), inputs
    )
    match returns:
        case SqlType.TIMESTAMP:
            return F.timestamp_micros(called)
        case SqlType.DATE:
            return F.date_from_unix_date(called)
    return called


def _given(column: Column, kind: SqlType) -> Column:
    from pyspark.sql import functions as F

    column = column.cast(kind.ddl.lower())
    if kind is SqlType.TIMESTAMP:
        return F.unix_micros(column)
    return F.unix_date(column) if kind is SqlType.DATE else column


def parse_trusted(words: Iterable[str]) -> list[Key]:
    """Read whom to trust as people write it, CREATOR=PUBLICKEY.

    Raises:
        OfflineError: one is not like that.
    """
    keys = []
    for word in words:
        creator, equals, key = word.partition("=")
        if not creator or not equals or not key:
            raise OfflineError(f"--trust {word!r} is no creator and public key; write it like --trust shop=u1mC...=")
        keys.append((creator, key))
    return keys
