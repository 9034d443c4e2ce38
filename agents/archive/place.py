"""What readers of the archive need of a path: `pathlib.Path` has it, and `remote.Remote` at a URL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Protocol, Self


class Place(Protocol):
    """A folder or file; the methods mean what they mean in `pathlib`, `str` is what a person would write."""

    @property
    def name(self) -> str:
        """The last part."""
        ...

    @property
    def stem(self) -> str:
        """The last part without its ending."""
        ...

    def __truediv__(self, name: str, /) -> Self: ...
    def __lt__(self, other: Self, /) -> bool: ...

    def with_name(self, name: str) -> Self:
        """Return the place beside it with this name."""
        ...

    def relative_to(self, other: Self, /) -> PurePath:
        """Return the path from `other`, which is above it, to here."""
        ...

    def resolve(self) -> Self:
        """Return the same for all ways to write one place."""
        ...

    def glob(self, pattern: str) -> Iterator[Self]:
        """Yield what is below and fits, in no particular order; nothing where there is no folder."""
        ...

    def exists(self) -> bool:
        """Tell whether there is anything."""
        ...

    def is_dir(self) -> bool:
        """Tell whether it is a folder."""
        ...

    def read_bytes(self) -> bytes:
        """Read a whole file; FileNotFoundError if there is none, another OSError if it cannot be read."""
        ...
