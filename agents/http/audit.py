"""What of the API's requests goes into the audit log: all that change something, and who was not let in."""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from elf.agents.host.audit_log import AuditLog
from elf.agents.http.guard import CALLER
from elf.agents.jobs.orders import ORDER_HEADER, Order
from elf.agents.language.own_functions import fingerprint

AUDIT: web.AppKey[AuditLog] = web.AppKey("audit")
#: What a request is about, for the audit log, if its path does not say.
SUBJECT = web.RequestKey("subject", str)
#: Which change of a job was asked for.
CHANGE = web.RequestKey("change", str)
#: Pushes of events and questions, of which there are many and which change no job.
_UNTOLD = ("/v1/ingest/", "/route")
_HOUSEHOLD = frozenset({"GET", "HEAD", "OPTIONS"})


@web.middleware
async def audit(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Note what was asked and what came of it, before it is answered; outside the guard, which says who asked."""
    log = request.app.get(AUDIT)
    response = await handler(request)
    if log is None:
        return response
    if response.status == 401:
        await asyncio.to_thread(log.refuse, peer=request.remote or "", on=request.path, status=401)
    elif not (request.method in _HOUSEHOLD or request.path.startswith(_UNTOLD[0]) or request.path.endswith(_UNTOLD[1])):
        await asyncio.to_thread(
            log.note,
            who=request.get(CALLER, ""),
            key=_key_of(request),
            what=_what(request),
            on=request.get(SUBJECT, "") or _subject(request),
            status=response.status,
            why=_why(response),
            peer=request.remote or "",
        )
    return response


def _what(request: web.Request) -> str:
    """Name what was asked, as an order would."""
    resource = request.match_info.route.resource
    path = resource.canonical if resource is not None else request.path
    match request.method, path.rpartition("/")[2]:
        case "POST", "jobs":
            return "publish"
        case "POST", "versions":
            return str(request.get(CHANGE, "change"))
        case "DELETE", "{agent}":
            return "retire"
        case "DELETE", "{key}":
            return "purge"
        case "DELETE", "{name}":
            return "stop"
        case "DELETE", "drain":
            return "drain --cancel"
        case "POST", word:
            return word
    return f"{request.method} {path}"


def _subject(request: web.Request) -> str:
    told = request.match_info
    words = [told[part] for part in ("creator", "name") if part in told]
    return " ".join(filter(None, ("/".join(words), told.get("agent", ""))))


def _key_of(request: web.Request) -> str:
    """Name the key that the request was ordered with, if it is signed with that; else say so."""
    text = request.headers.get(ORDER_HEADER)
    if text is None:
        return ""
    try:
        order = msgspec.json.decode(text.encode(errors="replace"), type=Order)
    except (msgspec.DecodeError, ValueError):
        return "unreadable"
    return fingerprint(order.key) if order.is_signed else "not signed"


def _why(response: web.StreamResponse) -> str:
    if response.status < 400 or not isinstance(response, web.Response) or not isinstance(response.body, bytes):
        return ""
    try:
        return str(msgspec.json.decode(response.body).get("detail", ""))
    except (msgspec.DecodeError, AttributeError):
        return ""
