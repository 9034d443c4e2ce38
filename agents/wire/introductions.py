"""Introductions that only the agent itself can make: how they are signed, and which are believed. Pure.

An agent of which a key was heard is introduced by that key alone. Whose key it is follows from the agent's id, which is
the key's fingerprint; ids that releases without keys have made are bound to the first key heard with them, and those of
agents of such a release, which bring none, to nothing. Where the cluster has an authority (certificates of links), it
vouches for key and address as well. One thing others may say of an agent: that it is gone for good, an operator's word
brought by whichever agent was asked; the agent says otherwise itself if it runs.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from elf.agents.wire.credentials import Credentials, Endorsement
from elf.agents.wire.records import Member
from elf.overlay.keys import SecretKey, is_signed, message_of, name_of

_PURPOSE = b"elf introduction 1"
#: How much later than now by our clock somebody else's word on an agent may be dated.
AHEAD_MS = 3_600_000

#: Signs with the key of the certificate of this agent's links.
Endorse = Callable[[bytes], Endorsement]
#: Tells, of an endorsement, what was signed, the address and a time of day in ms, why it does not hold; None: it does.
Doubt = Callable[[Endorsement, bytes, str, int], str | None]


def introduced(member: Member, version: int, key: SecretKey, endorse: Endorse | None = None) -> Member:
    """Return an agent's introduction as of a version of its record, signed."""
    message = _message(member, version)
    endorsement = None if endorse is None else endorse(message_of(_PURPOSE, key.public, message))
    return replace(member, signed=Credentials(key.public, version, key.sign(message), endorsement))


def gone(member: Member) -> Member:
    """Return the word that an agent is gone for good; what it said of itself stays as it signed it."""
    return replace(member, gone=True)


def fault(member: Member, version: int, known: Member | None, now_ms: int, doubt: Doubt | None = None) -> str | None:
    """Return why an introduction is not believed, None if it is. Up to 0.5 ms.

    Args:
        member: it.
        version: of the record it is in.
        known: what is known of that agent.
        now_ms: the time of day.
        doubt: asks the cluster's authority; None where there is none.
    """
    signed, before = member.signed, None if known is None else known.signed
    if member.gone:
        latest = max(now_ms + AHEAD_MS, 0 if signed is None else signed.version + 1)
        if version > latest:
            return "it says of another agent that it is gone, at a time that is to come"
    if signed is None:
        return "it is not signed, and its agent has a key" if before is not None else None
    if before is not None and signed.key != before.key and name_of(signed.key) != member.agent_id:
        return "it is signed with another key than its agent has"
    if signed.version >= version if member.gone else signed.version != version:
        return "it was signed for another version"
    message = _message(member, signed.version)
    if not is_signed(signed.key, message, signed.signature):
        return "its signature is not that of its agent"
    if doubt is None:
        return None
    if signed.endorsement is None:
        return "it comes without a certificate of this cluster's authority"
    at_ms = min(signed.version, now_ms)
    return doubt(signed.endorsement, message_of(_PURPOSE, signed.key, message), member.address, at_ms)


def _message(member: Member, version: int) -> bytes:
    """Return what is signed: all that an agent says of itself. Another release may say more, and sign that beside."""
    said = (member.agent_id, member.name, member.address, member.sources, member.since_ms, member.release)
    # Of most agents there is nothing of it to say, and older releases know no such word.
    more = (member.unread,) if member.unread else ()
    return message_of(_PURPOSE, version.to_bytes(8, "big"), msgspec.msgpack.encode((*said, *more)))
