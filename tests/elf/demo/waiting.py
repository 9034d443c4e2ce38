"""Waits for SIGTERM, then ends in order, with exit code 3; its files are in the folder that the command line names."""

import pathlib
import signal
import sys
import threading

ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
pathlib.Path(sys.argv[1], "begun").touch()
while not ended.wait(0.05):
    pass
pathlib.Path(sys.argv[1], "ended").touch()
sys.exit(3)
