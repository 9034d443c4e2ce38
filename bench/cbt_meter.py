"""CPU time and resident memory of this process, for the engines of `scripts/bench cbt`."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_STATUS, _ROLLUP = Path("/proc/self/status"), Path("/proc/self/smaps_rollup")
#: Written to clear_refs: forget the highest resident memory so far.
_RESET_PEAK = "5"


class Meter:
    """Counts from `start` on, all threads, what is not `aside`. `notes` are figures of the engine itself."""

    def __init__(self) -> None:
        self.baseline_bytes = 0
        self.peak_bytes = 0
        self.after_bytes = 0
        self.after_free_bytes = 0
        self._began_s = 0.0
        self._aside_s = 0.0
        self.cpu_s = 0.0
        self.notes: dict[str, float] = {}

    def start(self) -> None:
        """Take the baseline; what is alive now, one batch of input among it, is not the engine's."""
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
        self.baseline_bytes = resident()[0]
        self._began_s = time.process_time()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Leave out what this thread does meanwhile; other threads are the engine's and go on counting."""
        began_s = time.thread_time()
        yield
        self._aside_s += time.thread_time() - began_s

    def batches(self, made: Iterator[T]) -> Iterator[T]:
        """Yield what another iterator makes, its making aside, and look at the memory after each was dealt with.

        No reference is kept while the next one is made: at most one batch is alive, as long as its user drops it too.
        """
        while True:
            with self.aside():
                batch = next(made, None)
            if batch is None:
                return
            yield batch
            with self.aside():
                del batch
                self.look()

    def look(self) -> None:
        """Note how much memory is resident. The kernel's own peak holds more; this is for kernels that forget it."""
        self.peak_bytes = max(self.peak_bytes, _field(_STATUS, "VmRSS"))

    def inserted(self, batch: object) -> None:
        """Note memory after the last insert. `batch` is one that the engine has not seen: one was alive at start."""
        resident_bytes, free_bytes = resident()
        self.after_bytes = resident_bytes
        self.after_free_bytes = free_bytes

    def stop(self) -> None:
        """End the count: everything is drained."""
        self.cpu_s = time.process_time() - self._began_s - self._aside_s
        self.peak_bytes = max(self.peak_bytes, _field(_STATUS, "VmHWM"))

    def result(self) -> dict[str, float]:
        """Return the figures."""
        return {
            "cpu_s": self.cpu_s,
            "after_bytes": self.after_bytes - self.baseline_bytes,
            "peak_bytes": self.peak_bytes - self.baseline_bytes,
            "baseline_bytes": self.baseline_bytes,
            "after_free_bytes": self.after_free_bytes,
        } | self.notes


def resident() -> tuple[int, int]:
    """Return resident bytes exactly, and how many of them the kernel may take back when it likes (MADV_FREE)."""
    return _field(_ROLLUP, "Rss"), _field(_ROLLUP, "LazyFree")


def pin(process: int, core: int) -> None:
    """Keep a process on one core."""
    os.sched_setaffinity(process, {core})


def _field(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"{path} has no {name}")
