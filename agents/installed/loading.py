"""Finding installed functions: entry points `elf.functions` of the Python that runs us, loaded once, when asked first.

What an operator installs is trusted: it runs in the agent's process with the agent's rights. But a package that cannot
be used stops nothing: it is named in the log, and its functions are unknown here.
"""

from __future__ import annotations

import importlib.metadata
import logging
import re
import threading
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlglot import exp

from agents.errors import ElfError
from agents.installed.declaring import Aggregate, Declared, Scalar, Vectorised
from agents.jobs.dialect import parse_statement
from cbt.aggregates.user import register

log = logging.getLogger(__name__)
GROUP = "elf.functions"
#: Names as SQL has them; in any case when they are called.
NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
#: A message of somebody else's code, in a sentence of ours.
REASON_CHARS_MAX = 200


class Origin(NamedTuple):
    """Where a function comes from.

    Attributes:
        value: of its entry point, `module:object`.
        folder: where its package's metadata are; the module mostly, too.
    """

    value: str
    folder: str


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


def forget() -> None:
    """Look again when asked next; for tests, for running jobs keep what they were compiled with."""
    global _installed
    _installed = None


def load(points: Iterable[importlib.metadata.EntryPoint]) -> Installed:
    """Load entry points; what cannot be used is said in the log, once a package."""
    # The same package found twice, as an editable install may be, is one.
    found: dict[str, dict[tuple[str, str], importlib.metadata.EntryPoint]] = {}
    for point in points:
        found.setdefault(point.name, {})[_package(point), point.value] = point
    declared: dict[str, Declared] = {}
    refused: dict[str, str] = {}
    blamed: dict[str, list[str]] = {}
    for name, versions in sorted(found.items()):
        packages = sorted({package for package, _ in versions})
        try:
            if len(versions) > 1:
                raise ElfError(f"it is declared more than once, by {' and '.join(packages)}")
            declared[name] = _load(next(iter(versions.values())))
        except ElfError as error:
            refused[name] = str(error)
            for package in packages:
                blamed.setdefault(package, []).append(f"{name}: {error}")
    for package, reasons in sorted(blamed.items()):
        log.warning("functions of the installed package %s cannot be used: %s", package, "; ".join(reasons))
    return Installed(
        functions={name: each for name, each in declared.items() if not isinstance(each, Aggregate)},
        aggregates={name: each for name, each in declared.items() if isinstance(each, Aggregate)},
        origins={name: _origin(next(iter(found[name].values()))) for name in declared},
        refused=refused,
    )


def find_function(name: str) -> Scalar | Vectorised | None:
    """Return the installed function of one row that a name in lower case stands for; built-in names stand for none."""
    return None if _is_taken(name) else installed().functions.get(name)


def find_aggregate(name: str) -> Aggregate | None:
    """Return the installed aggregate that a name in lower case stands for; built-in names stand for none."""
    return None if _is_taken(name) else installed().aggregates.get(name)


def brief(error: BaseException) -> str:
    """Say what went wrong in somebody else's code, in a line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:REASON_CHARS_MAX]}" if lines else type(error).__name__


def _load(point: importlib.metadata.EntryPoint) -> Declared:
    """Load one entry point; raises ElfError where it cannot be used."""
    _check_name(point.name)
    try:
        made = point.load()
    except (Exception, SystemExit) as error:
        raise ElfError(f"{point.value} cannot be imported ({brief(error)})") from None
    if not isinstance(made, Scalar | Vectorised | Aggregate):
        what = f"{point.value} is {type(made).__name__}"
        raise ElfError(f"{what}; make it with elf.scalar, elf.vectorised or elf.aggregate")
    if isinstance(made, Aggregate):
        try:
            register(point.name, made)
        except ValueError as error:
            raise ElfError(str(error)) from None
    return made


def _is_taken(name: str) -> bool:
    # Loaded here: the tables of functions ask us for the others, and few jobs need them.
    from agents.jobs.functions import is_taken

    return is_taken(name)


def _origin(point: importlib.metadata.EntryPoint) -> Origin:
    return Origin(point.value, "" if point.dist is None else str(point.dist.locate_file("")))


def _check_name(name: str) -> None:
    if NAME.fullmatch(name) is None:
        raise ElfError(f"{name!r} is no name of a function: 1 to 63 of a-z 0-9 _, beginning with a letter or _")
    if _is_taken(name):
        raise ElfError("there is a function of this name in Spark or in the job language; give it another one")
    try:
        (call,) = parse_statement(f"SELECT {name}(1)").expressions
        is_call = isinstance(call, exp.Anonymous) and call.name == name
    except (ElfError, ValueError):
        is_call = False
    if not is_call:
        raise ElfError("this is a word of SQL; give it another name")


def _package(point: importlib.metadata.EntryPoint) -> str:
    package = point.dist
    return "of an unknown name" if package is None else f"{package.name} {package.version}"
