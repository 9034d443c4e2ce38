"""Processes that end with whoever began them, however that ends, and a folder that is gone after the last of them.

Two pipes say who lives. Of the first one, only who began holds the end to write: at its end of file the others end. Of
the second one, all of them hold it: at its end of file nobody is left, and a sweeper removes the folder. The kernel
closes both for whoever is killed, so nothing here waits for a process to say goodbye.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import IO


class Ties:
    """Begins processes that are tied to this one, for the time that `folder` is there.

    Args:
        folder: removed, with all that is in it, when this process and all that it began have ended.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        watched, ours = os.pipe()
        ending, last = os.pipe()
        self._watched = watched
        self._ours = ours
        self._last = last
        self._sweeper = subprocess.Popen(
            [sys.executable, "-m", "elf.demo.sweeper", str(folder)],
            stdin=ending,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(ending)

    def begin(self, module: str, *arguments: str, messages: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """Begin `python -m module arguments`, tied; Ctrl-C at the terminal does not reach it.

        Args:
            module: whose text is run.
            arguments: its command line.
            messages: where its stderr goes.
        """
        return subprocess.Popen(
            [sys.executable, "-m", "elf.demo.tied", module, *arguments],
            stdin=self._watched,
            stdout=subprocess.DEVNULL,
            stderr=messages,
            pass_fds=(self._last,),
            start_new_session=True,
        )

    def cut(self) -> None:
        """Let all that was begun end, and wait until the folder is gone."""
        for end in (self._ours, self._watched, self._last):
            os.close(end)
        self._sweeper.wait()
