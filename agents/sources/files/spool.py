"""What the tail asks of a log of our own, to which pushed lines are appended and which nobody else may touch."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from elf.agents.sources.files.rotation import Position, Seen


class Spool(Protocol):
    """A file that is only appended to, by us; what somebody else has done to it is found out, and it is set aside."""

    def readable(self) -> int:
        """Return how many bytes of it may be read."""
        ...

    def is_ours(self, inode: int) -> bool:
        """Tell whether we began a file at its path."""
        ...

    def is_read(self, inode: int) -> bool:
        """Tell whether a file was there before, and went because all of it was read."""
        ...

    def unread(self, inode: int, offset: int) -> int | None:
        """Return how many bytes behind a place nobody can read any more, of a file set aside; None of others."""
        ...

    def set_aside(self, inode: int, why: str) -> None:
        """Put a file away that is at its path, and begin another; OSError if that cannot be done now."""
        ...


class Spools:
    """The logs of our own that a tail follows, by their paths."""

    def __init__(self, spools: Mapping[str, Spool]) -> None:
        self.by_path = dict(spools)
        #: Files that are to be set aside and could not be yet.
        self._refused: set[tuple[int, int]] = set()

    def __contains__(self, path: str) -> bool:
        return path in self.by_path

    def are_all(self, patterns: Iterable[str]) -> bool:
        """Tell whether absolute paths and globs name no other files than these."""
        return set(patterns) <= {glob.escape(path) for path in self.by_path}

    def limit(self, path: str) -> Callable[[], int] | None:
        """Return what says how many bytes of a file may be read; None of one that is not ours."""
        spool = self.by_path.get(path)
        return None if spool is None else spool.readable

    def unread(self, path: str, inode: int, offset: int) -> int | None:
        """Return what `Spool.unread` says of a file that is gone from a path; None of one that is not ours."""
        spool = self.by_path.get(path)
        return None if spool is None else spool.unread(inode, offset)

    def may_read(self, seen: Seen) -> bool:
        """Tell whether a file is the one that we write, and has not been given up."""
        return self.by_path[seen.path].is_ours(seen.inode) and seen.key not in self._refused

    def is_done_with(self, place: Position, seen: Seen) -> bool:
        """Tell whether a place is no loss where there is a new file: nothing was read of it, or all of one before."""
        if place.path != seen.path:
            return False
        if (place.device, place.inode) == seen.key:
            return not place.offset
        return self.by_path[seen.path].is_read(place.inode)

    def set_aside(self, seen: Seen, why: str) -> str | None:
        """Have a file put away that is not what was written; returns why that cannot be done now."""
        self._refused.add(seen.key)
        try:
            self.by_path[seen.path].set_aside(seen.inode, why)
        except OSError as error:
            return error.strerror or str(error)
        self._refused.discard(seen.key)
        return None
