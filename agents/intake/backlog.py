"""Whether a source has more lines to read right after the last ones. Pure."""

from __future__ import annotations

from collections.abc import Set

#: After a chunk of at least this part of the most that is read at a time, there probably is more.
_FULL_CHUNKS = 4


class Backlog:
    """What is left of a source's logs.

    Args:
        chunk_bytes: the most that is read at a time.
    """

    def __init__(self, chunk_bytes: int) -> None:
        self._chunk_bytes = chunk_bytes
        #: The last chunk was large: its log probably has more.
        self.is_large = False
        #: There is more to read: the last chunk was large, or other logs have lines waiting.
        self.is_left = False
        #: The logs that were read to their ends since nothing more was there.
        self._read_through: set[str] = set()

    def note(self, log: str, size: int, waiting: Set[str]) -> None:
        """Note a chunk of a log, of so many bytes; `waiting`: the logs that had lines when they were looked at."""
        self.is_large = size * _FULL_CHUNKS >= self._chunk_bytes
        if self.is_large:
            self._read_through.clear()
        else:
            self._read_through.add(log)
        self.is_left = self.is_large or not waiting <= self._read_through
        if not self.is_left:
            self._read_through.clear()

    def end(self) -> None:
        """Note that nothing more was there."""
        self._read_through.clear()
