"""Whose process has called: the kernel's answer, for connections that do not leave this machine.

Who may read the token from the agent's own folder need not send it: its user, and root; nor need members of the group
that has the name of its user, if it has one of its own. Asked of the kernel by the addresses of both ends
(`sock_diag(7)`), while the other end is open; everybody else, and every system that cannot say, sends the token. A
proxy's user counts as what it is, not as whom it forwards for.
"""

from __future__ import annotations

import asyncio
import grp
import ipaddress
import os
import pwd
import socket
import struct
import weakref
from collections.abc import Callable
from typing import NamedTuple

_NETLINK_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_ERROR = 2
#: Of connections: the states in which both ends may be open.
_ESTABLISHED, _CLOSE_WAIT = 1, 8
_STATES = 1 << _ESTABLISHED | 1 << _CLOSE_WAIT
_HEADER = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBxI")
_ENDS = struct.Struct("!HH16s16s")
_ANYWHERE = struct.Struct("=III")
#: family, state, timer, retransmits; both ends, interface, cookie; expires, queues; owner and inode.
_ANSWER = struct.Struct("=BBBB48xIIIII")
_ANSWER_BYTES_MAX = 8192


class End(NamedTuple):
    """One end of a connection: address and port."""

    host: str
    port: int


class Callers:
    """Who of those that call is trusted; asked once a connection.

    Args:
        owner_of: the user who owns the socket that leads from one end to another; None if nobody can say.
        trusts: whether a user is trusted.
    """

    def __init__(self, owner_of: Callable[[End, End], int | None], trusts: Callable[[int], bool]) -> None:
        self._owner_of = owner_of
        self._trusts = trusts
        self._known: weakref.WeakKeyDictionary[asyncio.BaseTransport, int | None] = weakref.WeakKeyDictionary()

    def user(self, transport: asyncio.BaseTransport | None) -> int | None:
        """Return the trusted user whose process is at the other end of a connection; None: it is nobody's we trust."""
        if transport is None:
            return None
        if transport not in self._known:
            theirs, ours = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
            self._known[transport] = self._user(End(*theirs[:2]), End(*ours[:2])) if theirs and ours else None
        return self._known[transport]

    def _user(self, theirs: End, ours: End) -> int | None:
        if not ipaddress.ip_address(theirs.host).is_loopback:
            return None
        user = self._owner_of(theirs, ours)
        return user if user is not None and self._trusts(user) else None


def callers_of_this_user() -> Callers:
    """Return who knows this process's user, root, and the members of the group that is named as the user is."""
    user, group = os.geteuid(), os.getegid()
    own_group = has_own_group()
    return Callers(owner_of, lambda caller: caller in (0, user) or (own_group and _is_member(caller, group)))


def has_own_group() -> bool:
    """Tell whether this process's group is its user's own, by its name; `users`, say, is everybody's."""
    user = os.geteuid()
    return user != 0 and _name_of_user(user) == _name_of_group(os.getegid())


def _name_of_user(user: int) -> str | None:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return None


def _name_of_group(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return ""


def _is_member(user: int, group: int) -> bool:
    try:
        entry = pwd.getpwuid(user)
        return group in os.getgrouplist(entry.pw_name, entry.pw_gid)
    except (KeyError, OSError):
        return False


def owner_of(theirs: End, ours: End) -> int | None:
    """Return the user id of the open socket at `theirs` that is connected with `ours`; None if there is none to see."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as netlink:
            netlink.settimeout(1.0)
            netlink.send(_question(theirs, ours))
            answer = netlink.recv(_ANSWER_BYTES_MAX)
    except (OSError, AttributeError):  # no such sockets on this system, or nobody may ask
        return None
    _, kind, *_ = _HEADER.unpack_from(answer)
    if kind != _BY_FAMILY or len(answer) < _HEADER.size + _ANSWER.size:
        return None
    _, state, _, _, _, _, _, user, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    # A socket that its process has closed has no inode, and is said to be root's.
    is_open = inode != 0 and state in (_ESTABLISHED, _CLOSE_WAIT)
    return user if is_open else None


def _question(theirs: End, ours: End) -> bytes:
    source, destination = ipaddress.ip_address(theirs.host), ipaddress.ip_address(ours.host)
    family = socket.AF_INET if source.version == 4 else socket.AF_INET6
    any_interface, any_cookie = 0, 0xFFFFFFFF
    body = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, _STATES)
    body += _ENDS.pack(theirs.port, ours.port, source.packed, destination.packed)
    body += _ANYWHERE.pack(any_interface, any_cookie, any_cookie)
    return _HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST, 0, 0) + body
