"""Reading request bodies: bounded, also after decompression.

A body that is too large is refused while it is read, never after it is held in memory as a whole.
"""

from __future__ import annotations

import asyncio
import codecs
import zlib

import msgspec
from aiohttp import web

from elf.agents.http.body_budget import BODY
from elf.agents.http.problems import RefusedError, problem

#: Logs compress about 10 to 40 times; beyond this a body was made to hurt. Deflate can reach 1032.
RATIO_MAX = 200
#: Small bodies may have any ratio: they cannot hurt.
RATIO_FREE_BYTES = 1 << 20
#: Each member costs a copy of what follows it, so their number is bounded too.
MEMBERS_MAX = 64
#: Objects in one array, those within them counted, too: while it is taken apart, each takes some 80 bytes.
OBJECTS_MAX = 1_000_000
#: What msgspec raises for what is not the JSON that was asked for.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_GZIP_WBITS = 31
_STEP_BYTES = 1 << 20


def require_type(request: web.Request, *types: str) -> None:
    """Refuse a body of another media type (415); this also keeps plain HTML forms out."""
    if request.content_type not in types:
        wanted = " or ".join(types)
        raise _refused(415, "media-type", f"Content-Type {request.content_type!r}: send {wanted}")


async def read_body(request: web.Request) -> bytes:
    """Read the body, decompressed if it says it is gzip.

    Raises:
        RefusedError: too large (413), another encoding (415), broken gzip (400), or what `Body.read` refuses.
    """
    body = request[BODY]
    raw = await body.read(request)
    match request.headers.get("Content-Encoding", "identity").lower():
        case "identity":
            return raw
        case "gzip" | "x-gzip":
            text = await asyncio.to_thread(gunzip, raw, request.client_max_size)
            body.take(len(text))
            return text
        case other:
            raise _refused(415, "media-type", f"Content-Encoding {other!r}: send gzip or none")


class _Object(msgspec.Struct, gc=False):
    """Any JSON object; nothing of it is kept."""


def lines_of_json(body: bytes) -> bytes:
    """Make lines of a body that says it is JSON: an array is its objects, one object is one line, lines stay lines.

    O(body); nothing in the objects changes but their line ends.

    Raises:
        RefusedError: it begins as an array, and is none of objects (400), or of too many (413).
    """
    text = body.removeprefix(codecs.BOM_UTF8).strip()
    if text.startswith(b"["):
        if text.count(b"{") > OBJECTS_MAX:
            raise _refused(413, "too-large", f"the array has more than {OBJECTS_MAX} objects; send it in smaller parts")
        try:
            msgspec.json.decode(text, type=list[_Object])
        except UNREADABLE as error:
            raise _refused(400, "bad-request", f"the body is no JSON array of objects: {error}") from None
        return b"\n".join(msgspec.json.decode(_on_one_line(text), type=list[msgspec.Raw]))
    if text.startswith(b"{") and b"\n" in text:
        try:
            msgspec.json.decode(text, type=_Object)
        except UNREADABLE:
            return body  # more than one object: a line each
        return _on_one_line(text)
    return body


def _on_one_line(text: bytes) -> bytes:
    """Take the line ends out of valid JSON, which has them between its words only."""
    return text.replace(b"\n", b" ").replace(b"\r", b" ")


def gunzip(raw: bytes, bytes_max: int) -> bytes:
    """Decompress one or more gzip members, giving up as soon as a limit is passed. O(output).

    Raises:
        RefusedError: more than `bytes_max` or `RATIO_MAX` times the input (413), or broken data (400).
    """
    budget = min(bytes_max, max(RATIO_FREE_BYTES, RATIO_MAX * len(raw)))
    parts: list[bytes] = []
    size = members = 0
    rest = raw
    while rest:
        members += 1
        if members > MEMBERS_MAX:
            raise _refused(400, "bad-request", f"the gzip body has more than {MEMBERS_MAX} members; send it as one")
        member = zlib.decompressobj(_GZIP_WBITS)
        while not member.eof:
            part = _step(member, rest)
            size += len(part)
            if size > budget:
                raise _refused(413, "too-large", f"the body is larger than {budget} bytes when decompressed")
            parts.append(part)
            rest = member.unused_data if member.eof else member.unconsumed_tail
            if not (part or rest or member.eof):
                raise _refused(400, "bad-request", "the gzip body ends too early")
    return b"".join(parts)


def _step(member: zlib._Decompress, data: bytes) -> bytes:
    try:
        return member.decompress(data, _STEP_BYTES)
    except zlib.error as error:
        raise _refused(400, "bad-request", f"the body is not valid gzip: {error}") from None


def _refused(status: int, kind: str, detail: str) -> RefusedError:
    return RefusedError(problem(status, kind, detail))
