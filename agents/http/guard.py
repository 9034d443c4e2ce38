"""Who may ask: the bearer token, and the Host and Origin check that stops DNS rebinding (DESIGN section 8).

Off loopback it takes the operator's token. On loopback an agent makes one itself, which whoever could read it from the
data folder need not send (`elf.agents.http.callers`), nor who can open the API's Unix socket; or the API is open. On
loopback any web page that the operator visits may try to reach it through his browser. Such a page gives itself away:
its Host is not a loopback name, or its Origin is another one.
"""

from __future__ import annotations

import asyncio
import hmac
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from elf.agents.http.callers import Callers
from elf.agents.http.local_listener import user_at_file
from elf.agents.http.problems import problem
from elf.agents.settings.config import is_loopback

#: Whether a request came with the token, or is of this machine where there is none.
IS_TRUSTED = web.RequestKey("is_trusted", bool)
#: Who asks, in a word: with the token, a user of this machine, or anybody where the API is open.
CALLER = web.RequestKey("caller", str)
#: Probes must work for an orchestrator that holds no token; they tell nothing about data.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})


class Admission:
    """Who is let in; it may change while the API is served.

    Args:
        token: what every caller must send; None: who is on this machine, whoever that is.
        callers: knows whom of this machine may leave out the token; None: nobody.
    """

    def __init__(self, token: str | None, callers: Callers | None = None) -> None:
        self.admit(token, callers)

    def admit(self, token: str | None, callers: Callers | None) -> None:
        """Let in others from now on."""
        self._check: Middleware = require_token(token, callers) if token else require_local_host

    @property
    def middleware(self) -> Middleware:
        """What asks every request who it is of."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._check(request, handler)

        return check


def require_token(token: str, callers: Callers | None = None) -> Middleware:
    """Make a middleware that lets in only holders of the token, and those whom `callers` knows without it."""
    expected = token.encode()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        # What is no UTF-8 has reached us as halves of characters.
        known = scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(errors="replace"), expected)
        request[IS_TRUSTED] = known
        if known:
            request[CALLER] = "token"
            return await handler(request)
        user = None if _is_forwarded(request) else _user_of(request.transport, callers)
        if user is not None:
            request[CALLER] = f"uid {user}"
            return await require_local_host(request, handler)
        if request.path in OPEN_PATHS:
            return await handler(request)
        what = "what was sent is not this agent's API token" if given.strip() else "this agent wants its API token"
        how = "as Authorization: Bearer TOKEN; the elf command takes it from --token-file or $ELF_TOKEN_FILE"
        if callers is not None:
            how += "; it is in the agent's data folder (api.token), whose user needs none on the same machine"
        response = problem(401, "unauthorized", f"{what}; send it {how}")
        response.headers["WWW-Authenticate"] = 'Bearer realm="elf"'
        return response

    return check


@web.middleware
async def require_local_host(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests that a foreign web page makes through a browser on this machine."""
    host = request.headers.get("Host", "")
    if not is_loopback(_host_name(f"//{host}")):
        return problem(403, "forbidden-host", f"Host {host[:100]!r} is not this machine; use 127.0.0.1 or localhost")
    origin = request.headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != host:
        return problem(403, "forbidden-origin", f"pages of {origin[:100]!r} may not use this agent")
    request[IS_TRUSTED] = True
    request.setdefault(CALLER, "anybody")
    return await handler(request)


def _user_of(transport: asyncio.Transport | None, callers: Callers | None) -> int | None:
    """Return the user who called, if he is known without a token: by a file's mode or by the kernel's word."""
    user = user_at_file(transport)
    return callers.user(transport) if user is None and callers is not None else user


def _is_forwarded(request: web.Request) -> bool:
    """Tell whether a proxy says that it asks for somebody else."""
    return any(name in request.headers for name in ("Forwarded", "Via", "X-Forwarded-For", "X-Real-IP"))


def _host_name(url: str) -> str:
    """Return the host of a URL without its port; empty if it makes no sense."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
