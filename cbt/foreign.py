"""Telling failures of somebody else's code from those of this process."""

from __future__ import annotations

import threading

#: Who cannot have as much memory as this is short of it whoever asks.
_SPARE_BYTES = 16 << 20


def is_theirs(error: BaseException) -> bool:
    """Tell whether an error that somebody else's code let out is its own, whatever it is: it may raise anything.

    An interrupt is not, which Python itself raises, but in the main thread only; nor is a want of memory where there is
    none left for anybody.
    """
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is not threading.main_thread()
    if isinstance(error, MemoryError):
        try:
            bytearray(_SPARE_BYTES)
        except MemoryError:
            return False
    return True
