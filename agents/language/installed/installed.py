"""Finding installed functions: entry points `elf.functions` of the Python that runs us, loaded once, when asked first.

What an operator installs is trusted: it runs in the agent's process with the agent's rights. But a package that cannot
be used stops nothing: it is named in the log, and its functions are unknown here.
"""

from __future__ import annotations

import importlib.metadata
import re
import threading
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlglot import exp

from elf.agents.errors import ElfError, JobSpecError
from elf.agents.language.dialect import parse_statement
from elf.agents.language.functions import is_taken
from elf.agents.language.installed.declaration import Aggregate, Declared, Scalar, Vectorised
from elf.agents.language.installed.entry_points import Origin, load_points
from elf.cbt.aggregates.user import register

GROUP = "elf.functions"
#: Names as SQL has them; in any case when they are called.
NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Installed(NamedTuple):
    """What is installed.

    Attributes:
        functions: by name, those of one row.
        aggregates: by name.
        origins: where each of them comes from.
        refused: name -> why what is installed under it cannot be used.
    """

    functions: Mapping[str, Scalar | Vectorised]
    aggregates: Mapping[str, Aggregate]
    origins: Mapping[str, Origin]
    refused: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all that can be used."""
        return (*self.functions, *self.aggregates)


_lock = threading.Lock()
_installed: Installed | None = None


def installed() -> Installed:
    """Return what is installed; the first call imports the packages, which takes as long as they do."""
    global _installed
    if _installed is None:
        with _lock:
            if _installed is None:
                _installed = load(importlib.metadata.entry_points(group=GROUP))
    return _installed


def load(points: Iterable[importlib.metadata.EntryPoint]) -> Installed:
    """Load entry points; what cannot be used is said in the log, once a package."""
    found = load_points(points, "functions", _check_name, _use)
    return Installed(
        functions={name: each for name, each in found.objects.items() if not isinstance(each, Aggregate)},
        aggregates={name: each for name, each in found.objects.items() if isinstance(each, Aggregate)},
        origins=found.origins,
        refused=found.refused,
    )


def find_function(name: str) -> Scalar | Vectorised | None:
    """Return the installed function of one row that a name in lower case stands for; built-in names stand for none."""
    return None if is_taken(name) else installed().functions.get(name)


def find_aggregate(name: str) -> Aggregate | None:
    """Return the installed aggregate that a name in lower case stands for; built-in names stand for none."""
    return None if is_taken(name) else installed().aggregates.get(name)


def check_own_name(name: str) -> None:
    """Refuse a name for a function that a job brings along, where it has a meaning already.

    A scalar function of that name that is installed is hidden by the job's; an aggregate could not be.

    Raises:
        JobSpecError: it has one.
    """
    try:
        _check_name(name)
    except ElfError as error:
        raise JobSpecError(f"the job's own function {name}: {error}") from None
    if name in installed().aggregates:
        raise JobSpecError(f"the job's own function {name}: an aggregate of this name is installed; name it otherwise")


def _use(name: str, value: str, made: object) -> Declared:
    """Take what an entry point stands for; raises ElfError where it is no function."""
    if not isinstance(made, Scalar | Vectorised | Aggregate):
        what = f"{value} is {type(made).__name__}"
        raise ElfError(f"{what}; make it with elf.scalar, elf.vectorised or elf.aggregate")
    if isinstance(made, Aggregate):
        try:
            register(name, made)
        except ValueError as error:
            raise ElfError(str(error)) from None
    return made


def _check_name(name: str) -> None:
    if NAME.fullmatch(name) is None:
        raise ElfError(f"{name!r} is no name of a function: 1 to 63 of a-z 0-9 _, beginning with a letter or _")
    if is_taken(name):
        raise ElfError("there is a function of this name in Spark or in the job language; give it another one")
    try:
        (call,) = parse_statement(f"SELECT {name}(1)").expressions
        is_call = isinstance(call, exp.Anonymous) and call.name == name
    except (ElfError, ValueError):
        is_call = False
    if not is_call:
        raise ElfError("this is a word of SQL; give it another name")
