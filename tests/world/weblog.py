"""A web server's log: written whatever becomes of the agent, and rotated in both ways that logrotate knows."""

from __future__ import annotations

import pathlib
import shutil

#: Rotated files that are kept, more than any agent is away for.
KEPT = 50


class WebLog:
    """The log of one host.

    Args:
        path: where it is written.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def write(self, lines: bytes) -> None:
        """Append whole lines, as a program does that opens its log again after each rotation."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as log:
            log.write(lines)

    def rename(self) -> bool:
        """Rotate by giving the file another name, and make a new one (`create`); returns whether there was one."""
        if not self._has_lines():
            return False
        self._make_room()
        self.path.rename(self._rotated(1))
        self.path.touch()
        return True

    def copy(self) -> bool:
        """Rotate by copying the file and cutting it down to nothing (`copytruncate`); returns whether there was one."""
        if not self._has_lines():
            return False
        self._make_room()
        shutil.copyfile(self.path, self._rotated(1))
        with self.path.open("r+b") as log:
            log.truncate(0)
        return True

    def _has_lines(self) -> bool:
        return self.path.exists() and self.path.stat().st_size > 0

    def _make_room(self) -> None:
        for number in range(KEPT, 0, -1):
            if self._rotated(number).exists():
                self._rotated(number).rename(self._rotated(number + 1))

    def _rotated(self, number: int) -> pathlib.Path:
        return self.path.with_name(f"{self.path.name}.{number}")
