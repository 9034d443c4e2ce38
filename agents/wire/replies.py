"""What agents answer each other over the overlay: plain data, or an error that is raised again where it was asked.

Answers are msgpack; long ones, of which a result of many rows is the longest, are compressed.
"""

from __future__ import annotations

from typing import Any

import lz4.frame
import msgspec

from elf.agents.errors import (
    AgentRunningError,
    BadRequestError,
    ElfError,
    ExpiredError,
    JobConflictError,
    JobError,
    JobSpecError,
    MistakeError,
    NotCreatorError,
    StoppedError,
    UnavailableError,
    UnknownAgentError,
    UnknownJobError,
)
from elf.cbt.codec import PaoDecodeError, decompressed
from elf.overlay.contract import PAYLOAD_BYTES_MAX
from elf.overlay.decoding import read_msgpack

#: A reply that is longer is compressed.
PLAIN_BYTES_MAX = 256 << 10
#: Longest reply, decompressed.
REPLY_BYTES_MAX = 128 << 20
#: Errors that are no more than their message.
_WORDS = {
    each.__name__: each
    for each in (
        StoppedError,
        AgentRunningError,
        JobConflictError,
        NotCreatorError,
        ExpiredError,
        JobError,
        BadRequestError,
        MistakeError,
    )
}
#: How a compressed reply begins: a byte that msgpack never uses.
_COMPRESSED = b"\xc1"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error that crosses the network and is raised again where the question came from."""

    kind: str
    message: str
    line: int | None = None
    column: int | None = None
    hint: str | None = None
    setting: str | None = None
    nearest: tuple[str, ...] = ()


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer (plain data) or a failure."""

    value: Any = None
    failure: Failure | None = None


def encode_reply(reply: Reply) -> bytes:
    """Encode a reply; in the place of one that no message can carry, a failure that says so."""
    plain = msgspec.msgpack.encode(reply)
    if len(plain) <= PLAIN_BYTES_MAX:
        return plain
    packed = _COMPRESSED + lz4.frame.compress(plain, store_size=True) if len(plain) <= REPLY_BYTES_MAX else plain
    packed = min(plain, packed, key=len)
    if len(packed) <= PAYLOAD_BYTES_MAX:
        return bytes(packed)
    return msgspec.msgpack.encode(
        reply_of_error(
            BadRequestError(
                f"the answer is too large: {len(plain) >> 20} MiB, {len(packed) >> 20} MiB to be sent, of "
                f"{PAYLOAD_BYTES_MAX >> 20} MiB; ask for fewer rows: a limit, one key, or HAVING in the query"
            )
        )
    )


def reply_of_error(error: ElfError) -> Reply:
    """Wrap an error for the way back."""
    kind = type(error).__name__
    if isinstance(error, JobSpecError):
        line, column, hint, setting = error.line, error.column, error.hint, error.setting
        failure = Failure(kind=kind, message=error.message, line=line, column=column, hint=hint, setting=setting)
        return Reply(failure=failure)
    if isinstance(error, UnknownJobError):
        return Reply(failure=Failure(kind=kind, message=error.name, nearest=error.nearest, hint=error.ended or None))
    if isinstance(error, UnknownAgentError):
        return Reply(failure=Failure(kind=kind, message=error.name, nearest=error.nearest))
    # Of one that is told apart here only, what it is a kind of: a function that fails is the job's error everywhere.
    known = next((base.__name__ for base in type(error).__mro__ if base.__name__ in _WORDS), kind)
    return Reply(failure=Failure(kind=known, message=str(error)))


def value_of(body: bytes) -> Any:
    """Decode a reply and return its value, or raise the error it carries.

    Raises:
        ElfError: the failure the other agent sent, of the same kind; UnavailableError when the bytes are no reply.
    """
    try:
        reply = read_msgpack(_unpacked(body), Reply)
    except msgspec.DecodeError as error:
        raise UnavailableError(f"the other agent sent something that is no reply: {error}") from None
    failure = reply.failure
    if failure is None:
        return reply.value
    match failure.kind:
        case "JobSpecError":
            line, column, hint, setting = failure.line, failure.column, failure.hint, failure.setting
            raise JobSpecError(failure.message, line=line, column=column, hint=hint, setting=setting)
        case "UnknownJobError":
            raise UnknownJobError(failure.message, failure.nearest, failure.hint or "")
        case "UnknownAgentError":
            raise UnknownAgentError(failure.message, failure.nearest)
        case kind if kind in _WORDS:
            raise _WORDS[kind](failure.message)
        case _:
            raise UnavailableError(failure.message)


def _unpacked(body: bytes) -> bytes:
    """Return a reply as msgpack; raises msgspec.DecodeError where it was not compressed as `encode_reply` does it."""
    if body[:1] != _COMPRESSED:
        return body
    try:
        return decompressed(body[1:], REPLY_BYTES_MAX)
    except (PaoDecodeError, RuntimeError, EOFError, ValueError) as error:
        raise msgspec.DecodeError(str(error)) from None
