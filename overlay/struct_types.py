"""The types of messages, made ready to be read before there are threads that read.

What msgspec has to know of a struct type it finds out when the first value is read, and not safely: if two threads read
their first one at the same time, one of them may find that half done, which ends the process (msgspec 0.22).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import msgspec

_preparing = threading.Lock()
_prepared: set[type[msgspec.Struct]] = set()


def prepare_structs(*packages: str) -> None:
    """Make all struct types ready that the modules below some packages have defined by now.

    It may be called from any thread, and often.

    Args:
        packages: dotted names; `elf.overlay` stands for all modules below it.
    """
    below = tuple(f"{package}." for package in packages)
    with _preparing:
        for kind in set(_structs(msgspec.Struct)) - _prepared:
            module = sys.modules.get(kind.__module__)
            # What is made at run time, of a source's columns say, is its maker's, who may be reading with it by now.
            if f"{kind.__module__}.".startswith(below) and vars(module).get(kind.__name__) is kind:
                _prepare(kind)
                _prepared.add(kind)


def _structs(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for each in kind.__subclasses__():
        yield each
        yield from _structs(each)


def _prepare(kind: type[msgspec.Struct]) -> None:
    try:
        msgspec.msgpack.Decoder(kind)
    except TypeError:
        # It has a field that cannot be read: it is only ever written, or never leaves the process.
        return
