"""How columns of the archive may change over time: which stored type can be read as which, and what is refused.

Each file's manifest has the types of its own columns. A column that a file lacks is null in its events. A column that
has changed its type is read as the wider one; what did not fit the old type is null in the old files, as it was for
the jobs of that time. Everything else would be guessed, so it is refused, with the files and times that are meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from elf.agents.archive.layout import ArchivedFile, ArchiveError
from elf.agents.language.instants import instant

#: Types that hold all values of those before them, as near as the last one holds numbers.
_NUMBERS = ("INT", "BIGINT", "DOUBLE")
#: Reads exactly what fits, the rest is null: as an agent reads a line.
_NARROWED = ("BIGINT", "INT")


def is_readable(stored: str, wanted: str) -> bool:
    """Tell whether values stored as one SQL type can be read as another."""
    if stored == wanted or (stored, wanted) == _NARROWED:
        return True
    return stored in _NUMBERS and wanted in _NUMBERS and _NUMBERS.index(stored) < _NUMBERS.index(wanted)


def check_types(files: Sequence[ArchivedFile], wanted: Mapping[str, str]) -> None:
    """Check that all files can be read with these columns and SQL types.

    Raises:
        ArchiveError: a column cannot be read in the wanted type; it says where, and what would be right.
    """
    for column, kind in wanted.items():
        odd = [file for file in files if not is_readable(file.entry.columns.get(column, kind), kind)]
        if odd:
            raise ArchiveError(_refusal(column, kind, odd))


def common_types(files: Iterable[ArchivedFile], columns: Iterable[str] | None = None) -> dict[str, str]:
    """Return the type that holds what each column is in any of the files; of all columns, or of some.

    Raises:
        ArchiveError: no type holds all of them.
    """
    files, chosen = list(files), None if columns is None else {"ts", *columns}
    types: dict[str, str] = {}
    for file in files:
        for column, stored in file.entry.typed:
            if chosen is None or column in chosen:
                known = types.setdefault(column, stored)
                types[column] = stored if is_readable(known, stored) and (known, stored) != _NARROWED else known
    check_types(files, types)
    return types


def _refusal(column: str, wanted: str, odd: Sequence[ArchivedFile]) -> str:
    stored = odd[0].entry.columns[column]
    first_ms, last_ms = min(file.entry.first_ms for file in odd), max(file.entry.last_ms for file in odd)
    count = f"{len(odd)} files" if len(odd) > 1 else "1 file"
    return (
        f"column {column!r} was archived as {stored} and is wanted as {wanted}, which it cannot be read as: "
        f"{count} with events of {instant(first_ms)} to {instant(last_ms)}, such as {odd[0].path}; "
        f"ask for windows outside of that time, or declare the column as {stored}"
    )
