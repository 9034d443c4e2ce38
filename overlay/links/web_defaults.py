"""What the HTTP library answers by itself, set right for all that it serves here: links, and an agent's API.

Both are set where the library has them, for no hook of an application sees requests that are no HTTP, or lead nowhere.
"""

from __future__ import annotations

from aiohttp import web, web_response, web_urldispatcher

_expected = web_urldispatcher._default_expect_handler


async def _expect(request: web.Request) -> None:
    """Answer `Expect`; the library repeats what it does not know, and fails where that is no text."""
    try:
        await _expected(request)
    except (web.HTTPExpectationFailed, UnicodeEncodeError):
        raise web.HTTPExpectationFailed(text="expect 100-continue, or nothing") from None


def set_defaults() -> None:
    """Do not tell strangers what answers them, and of which version, nor fail on what they expect."""
    web_response.SERVER_SOFTWARE = ""  # type: ignore[attr-defined]
    web_urldispatcher._default_expect_handler = _expect
