"""What an agent found damaged on its disk since it started: counted for `/metrics`, and said once each on the log."""

from __future__ import annotations

import collections
import logging

log = logging.getLogger(__name__)

#: The state file as a whole and its mark, control records, files of the archive, copies of other agents' data.
#: Rows of a master's past have kinds of their own (`elf.agents.store.panes.Kind`).
KINDS = ("state", "mark", "record", "archive", "copy")


class Damages:
    """Counts by kind; any thread may note one (one increment of a dictionary's number)."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()

    def note(self, kind: str, sentence: str) -> None:
        """Count a damage and say what it is, where, and what becomes of it."""
        self.counts[kind] += 1
        log.error("%s", sentence)
