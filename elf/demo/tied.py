"""`python -m elf.demo.tied MODULE ...`: run a module as `python -m` does, until standard input ends at the latest."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

#: An agent ends in order within so long; one that hangs must not outlive whoever began it.
ENDING_S = 10.0


def _watch() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ENDING_S)
    os._exit(1)


def main() -> None:
    """Run the module that the command line names, with the rest of it."""
    threading.Thread(target=_watch, name="tie", daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
