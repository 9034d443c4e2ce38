"""What starting quickly, large chunks and rest ask of memory: of Python's collector and the C library's allocator.

Imports nothing heavy, so that it can be called before anything heavy is imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from collections.abc import Iterator, Mapping

#: What Polars' own allocator, jemalloc, is told; what the environment tells it already comes behind that, and counts.
_JEMALLOC, _SHARED = "_RJEM_MALLOC_CONF", "narenas:1,tcache:false"
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Load modules without looking for garbage among them, now, later or at the end.

    Loading makes some hundred thousand objects that all stay: going through them again and again is a quarter of the
    CPU time of a start. Garbage cycles made inside are never freed, so this is for loading only.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def share_freed_memory() -> bool:
    """Let all threads allocate from the same memory; returns whether the C library's allocator knows how.

    By default glibc gives each thread an arena of its own, up to eight a core, and what is freed in one serves no other
    thread: 40 of the 230 MB of an agent with 2,000 events a second for six jobs of 20,000 keys each. Polars has an
    allocator that does so, too, with a page at least for each size in each arena, and thread by thread some of each
    size at hand: 1.1 MB of an agent with forty jobs at rest. For the whole process, as far as threads begin later:
    call it before anything is imported that starts some, and before Polars is.
    """
    # Polars itself tells it some things that way, so whoever is started by a process that has Polars finds them there.
    os.environ[_JEMALLOC] = ",".join(filter(None, (_SHARED, os.environ.get(_JEMALLOC))))
    return _set({_M_ARENA_MAX: 1})


def keep_freed_memory(bytes_max: int = 64 << 20) -> bool:
    """Let the allocator keep up to `bytes_max` of freed memory for the next chunk; returns whether it knows how.

    By default glibc gives a chunk's megabytes back to the kernel and takes them again for the next one, which costs a
    page fault every 4 KiB: a tenth of all CPU time when a backlog is read. For the whole process; call it once, early.
    """
    return _set({_M_TRIM_THRESHOLD: bytes_max, _M_MMAP_THRESHOLD: min(bytes_max, 32 << 20)})


def give_back() -> bool:
    """Give the system back what is free, wherever it lies; returns whether the allocator knows how.

    Frees garbage cycles first. Takes some ms, and what is allocated next costs page faults: for an agent at rest.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):  # another C library
        return False
    return True


def _set(values: Mapping[int, int]) -> bool:
    """Set parameters of the allocator; returns whether it has all of them."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return all([mallopt(parameter, value) for parameter, value in values.items()])
