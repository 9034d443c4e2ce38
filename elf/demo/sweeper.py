"""`python -m elf.demo.sweeper FOLDER`: remove a folder once standard input ends, whatever else is told to end."""

from __future__ import annotations

import os
import shutil
import signal
import sys


def main() -> None:
    """Wait, and sweep: those who wrote into the folder are gone by then."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    main()
