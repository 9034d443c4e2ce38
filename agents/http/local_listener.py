"""The API's other door: a Unix socket, whose file's mode says who may come in (`elf.agents.settings.local_sockets`)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pathlib
import socket
import struct

from elf.agents.http.callers import has_own_group
from elf.agents.settings.local_sockets import socket_to_make

log = logging.getLogger(__name__)

_USER, _USER_AND_GROUP = 0o600, 0o660
#: What the kernel tells of who is at the other end: process, user, group.
_PEER = struct.Struct("iII")


def local_listener(port: int) -> socket.socket | None:
    """Bind the socket that goes with a port, for this user, and for the members of its own group if it has one.

    Returns:
        None where there is no folder for it, or another agent's is there and answers: the port is enough.
    """
    place = socket_to_make(port, os.environ)
    if place is None:
        return None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _make_way(place)
        # Nobody can call before it listens, and by then its mode is what it is to be.
        listener.bind(str(place))
        place.chmod(_USER_AND_GROUP if has_own_group() else _USER)
    except OSError as error:
        listener.close()
        log.warning("the API has no socket at %s, only its port: %s", place, error.strerror or error)
        return None
    return listener


def remove_file(listener: socket.socket) -> None:
    """Remove the file of a socket that is closed after this; a port has none."""
    if listener.family == socket.AF_UNIX:
        with contextlib.suppress(OSError):
            pathlib.Path(listener.getsockname()).unlink()


def user_at_file(transport: asyncio.BaseTransport | None) -> int | None:
    """Return the user who called through a Unix socket, and so could open the file; None: the call came otherwise."""
    used = None if transport is None else transport.get_extra_info("socket")
    if used is None or used.family != socket.AF_UNIX:
        return None
    _, user, _ = _PEER.unpack(used.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(user)


def _make_way(place: pathlib.Path) -> None:
    """Remove what an agent has left that ended without a word; raises OSError if one is there and answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(place))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            place.unlink(missing_ok=True)
            return
    raise FileExistsError(None, "another agent answers there")
