"""What applications say to each other, and how it travels: JSON-like values of bounded size. Pure.

Bodies are JSON, so that a peer's bytes decode into nothing else; around them are the records that the overlay carries.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from elf.overlay.fields import AgentId, AppId

#: Fits, with what is around it, into an entry of a control log (`elf.overlay.contract.CONTROL_BYTES_MAX`).
MESSAGE_BYTES_MAX = 240 << 10
#: What an application keeps is written with each commit of its job's.
KEPT_BYTES_MAX = 64 << 10
#: Deeper than any message that somebody reads.
DEPTH_MAX = 32
#: Whole numbers beyond are not the same to everybody who reads JSON.
WHOLE_MAX = (1 << 63) - 1
JOB_CHARS_MAX = 200
Body: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=MESSAGE_BYTES_MAX)]
#: Where an application runs: at the job's master, and at each agent that has the job's source.
Role: TypeAlias = Literal["master", "agent"]


class Said(msgspec.Struct, frozen=True, tag_field="say", tag="message"):
    """An entry of a job's control log: what the application at the master says to those at the agents."""

    body: Body

    def encode(self) -> bytes:
        """Return the entry's body."""
        return msgspec.msgpack.encode(self)


class Letter(msgspec.Struct, frozen=True, tag_field="ask", tag="letter"):
    """What an application says to that at one agent; the answer tells whether it was taken.

    `tree`: the publication's, so that nothing of an earlier one is read. `sender`: the id of the agent that it is from.
    """

    tree: AppId
    role: Role
    sender: AgentId
    body: Body


class Ask(msgspec.Struct, frozen=True, tag_field="ask", tag="route"):
    """Answer a query; asked of the master of a job whose application does. The answer is a body.

    `asker`: the job whose application asks; "" for a client.
    """

    app: AppId
    asker: Annotated[str, msgspec.Meta(max_length=JOB_CHARS_MAX)]
    body: Body


def packed(message: Any) -> bytes:
    """Encode a message.

    Raises:
        ValueError: it is not made of None, booleans, whole numbers of 64 bits, finite numbers, texts, lists (or tuples)
            and dictionaries with texts as keys; or too large, or nested too deep.
    """
    _check(message, 0)
    try:
        body = msgspec.json.encode(message)
    except UnicodeEncodeError as error:
        raise ValueError(f"a text of the message is no Unicode: {error}") from None
    if len(body) > MESSAGE_BYTES_MAX:
        raise ValueError(f"a message has at most {MESSAGE_BYTES_MAX} bytes as JSON, this one {len(body)}")
    return body


def packed_to_keep(value: Any) -> bytes:
    """Encode what an application keeps; raises ValueError as `packed` does, and where it has more than 64 KiB."""
    body = packed(value)
    if len(body) > KEPT_BYTES_MAX:
        raise ValueError(f"an application keeps at most {KEPT_BYTES_MAX} bytes as JSON, not {len(body)}")
    return body


def unpacked(body: bytes) -> Any:
    """Decode a message; raises msgspec.DecodeError on anything else, and nothing but that."""
    try:
        return msgspec.json.decode(body)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None


def _check(value: Any, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise ValueError(f"a message is nested at most {DEPTH_MAX} deep")
    # Exact types: what a subclass adds would not arrive.
    kind = type(value)
    if value is None or kind in (bool, str):
        return
    if kind is int:
        if not -WHOLE_MAX <= value <= WHOLE_MAX:
            raise ValueError(f"whole numbers of a message have 64 bits; {value} has more")
    elif kind is float:
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number that a message can hold")
    elif kind in (list, tuple):
        for each in value:
            _check(each, depth + 1)
    elif kind is dict:
        for key, each in value.items():
            if type(key) is not str:
                raise ValueError(f"keys of a message are texts; {key!r} is {type(key).__name__}")
            _check(each, depth + 1)
    else:
        raise ValueError(f"a message is made of what JSON has; {kind.__name__} is none of it")
