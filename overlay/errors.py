"""Every error the overlay raises on purpose, sorted by whose fault it is (STYLE 3.5).

A silent peer, a lost datagram or a stale message is an input or a counter, never an exception; these types are for
the edge of the package and for decoders.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class OverlayError(Exception):
    """The root of all errors that the overlay raises on purpose; its text is one clear sentence for a person."""


class SecretError(OverlayError):
    """The cluster secret is missing, unreadable or too weak: the operator's fault, raised at start only."""


class NotJoinedError(OverlayError):
    """The overlay was asked for something that needs `start()` first."""


def started(part: T | None) -> T:
    """Return a part that there is only once the node runs.

    Raises:
        NotJoinedError: it does not.
    """
    if part is None:
        raise NotJoinedError("the overlay node is not started")
    return part


class OvertakenError(OverlayError):
    """Another agent leads the job's root group now: what this one was about to decide is not its to decide any more."""


class NotFoundError(OverlayError):
    """The request reached the agent closest to the key and nobody on the way owned the key."""


class UnreachableError(OverlayError):
    """No answer came in time; asking again later may work."""


class RemoteProtocolError(OverlayError):
    """A peer sent nonsense: drop it, count it, go on."""


class DecodeError(RemoteProtocolError):
    """Bytes from a peer are not a message; the text says which field is wrong."""


class DamagedError(DecodeError):
    """A frame arrived damaged on its way; the sender may repeat it."""


class UnsupportedVersionError(RemoteProtocolError):
    """A peer speaks a version of the wire format that we do not know."""
