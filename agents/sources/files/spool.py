"""What the tail asks of a log of our own, to which pushed lines are appended and which nobody else may touch."""

from __future__ import annotations

from typing import Protocol


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
