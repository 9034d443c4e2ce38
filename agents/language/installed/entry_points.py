"""What operators install for agents: objects of other packages, found by their entry points, each once.

A package that cannot be used stops nothing: it is named in the log, and its objects are unknown here.
"""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from elf.agents.errors import ElfError
from elf.cbt.foreign import is_theirs

log = logging.getLogger(__name__)
#: A message of somebody else's code, in a sentence of ours.
REASON_CHARS_MAX = 200
T = TypeVar("T")


class Origin(NamedTuple):
    """Where an object comes from.

    Attributes:
        value: of its entry point, `module:object`.
        folder: where its package's metadata are; the module mostly, too.
    """

    value: str
    folder: str


class Found(NamedTuple, Generic[T]):
    """What entry points stand for.

    Attributes:
        objects: by name.
        origins: where each of them comes from.
        refused: name -> why what is installed under it cannot be used.
    """

    objects: Mapping[str, T]
    origins: Mapping[str, Origin]
    refused: Mapping[str, str]


def load_points(
    points: Iterable[importlib.metadata.EntryPoint],
    what: str,
    check_name: Callable[[str], None],
    use: Callable[[str, str, Any], T],
) -> Found[T]:
    """Load entry points; what cannot be used is said in the log, once a package.

    Args:
        points: of one group.
        what: they declare, in the plural; for messages.
        check_name: raises ElfError for a name that cannot be used.
        use: takes name, `module:object` and the object; raises ElfError if it cannot be used.
    """
    # The same package found twice, as an editable install may be, is one.
    found: dict[str, dict[tuple[str, str], importlib.metadata.EntryPoint]] = {}
    for point in points:
        found.setdefault(point.name, {})[_package(point), point.value] = point
    objects: dict[str, T] = {}
    refused: dict[str, str] = {}
    blamed: dict[str, list[str]] = {}
    for name, versions in sorted(found.items()):
        packages = sorted({package for package, _ in versions})
        try:
            if len(versions) > 1:
                raise ElfError(f"it is declared more than once, by {' and '.join(packages)}")
            check_name(name)
            point = next(iter(versions.values()))
            objects[name] = use(name, point.value, _imported(point))
        except ElfError as error:
            refused[name] = str(error)
            for package in packages:
                blamed.setdefault(package, []).append(f"{name}: {error}")
    for package, reasons in sorted(blamed.items()):
        log.warning("%s of the installed package %s cannot be used: %s", what, package, "; ".join(reasons))
    origins = {name: _origin(next(iter(found[name].values()))) for name in objects}
    return Found(objects, origins, refused)


def brief(error: BaseException) -> str:
    """Say what went wrong in somebody else's code, in a line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:REASON_CHARS_MAX]}" if lines else type(error).__name__


def _imported(point: importlib.metadata.EntryPoint) -> Any:
    try:
        return point.load()
    except BaseException as error:
        if not is_theirs(error):
            raise
        raise ElfError(f"{point.value} cannot be imported ({brief(error)})") from None


def _origin(point: importlib.metadata.EntryPoint) -> Origin:
    return Origin(point.value, "" if point.dist is None else str(point.dist.locate_file("")))


def _package(point: importlib.metadata.EntryPoint) -> str:
    package = point.dist
    return "of an unknown name" if package is None else f"{package.name} {package.version}"
