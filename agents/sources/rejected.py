"""The file in which lines that did not parse are kept, with the reason: nobody has to guess what was rejected."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

#: When the file has grown beyond this it becomes `.1` and a new one begins: at most twice this is kept.
REJECTED_BYTES_MAX = 8 << 20


class RejectedLines:
    """Appends `reason<TAB>line` rows to one file of bounded size."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)

    def keep(self, rejects: Sequence[tuple[bytes, str]]) -> None:
        """Keep a sample of rejected lines."""
        if not rejects:
            return
        with self._path.open("ab") as file:
            for line, reason in rejects:
                file.write(reason.encode() + b"\t" + line.rstrip(b"\r\n").replace(b"\n", b"\\n") + b"\n")
            size = file.tell()
        if size > REJECTED_BYTES_MAX:
            self._path.replace(self._path.with_name(self._path.name + ".1"))
