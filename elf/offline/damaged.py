"""Which archived file it was, where Spark could not read one: it names what it stumbled over, if anything."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from elf.agents.archive.layout import ArchivedFile, check_file
from elf.offline.session import OfflineError


@contextlib.contextmanager
def naming_damages(files: Sequence[ArchivedFile]) -> Iterator[None]:
    """Look at all files, O(bytes), once Spark has failed on them; what it says remains where all are sound.

    Raises:
        DamagedFileError: the first that is not what its agent wrote.
        OfflineError: what Spark said.
    """
    try:
        yield
    except OfflineError:
        for file in files:
            with contextlib.suppress(OSError):  # gone, or out of reach: Spark has said so
                check_file(file)
        raise
