"""No header of a stranger fails an agent, and none of ours tells what it is made of."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.http.app import make_app, serve
from tests.agents.http.fake_service import FakeService

NAMES = (
    "Authorization",
    "Host",
    "Origin",
    "Content-Type",
    "Content-Encoding",
    "Content-Length",
    "Transfer-Encoding",
    "Accept",
    "If-None-Match",
    "Last-Event-ID",
    "Idempotency-Key",
    "Expect",
    "Connection",
    "Upgrade",
    "Range",
    "Cookie",
)
TARGETS = (
    "/v1/jobs",
    "/v1/jobs/shop/top/result",
    "/v1/jobs/shop/top/stream",
    "/v1/ingest/clicks",
    "/healthz",
    "/readyz",
    "/v1/%0a2026%1b",
    "/v1/\xff",
    "//",
    "*",
)
WORDS = (
    b"Bearer ",
    b"Basic ",
    b"\xff",
    b'W/"',
    b"gzip",
    b"chunked",
    b"100-continue",
    b"application/json",
    b";",
    b"0x",
    b"=",
)
VALUES = st.lists(st.sampled_from(WORDS) | st.binary(max_size=12), max_size=4).map(b"".join)
HEADERS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)
TOKENS = st.just(b"s3cret") | st.binary(max_size=8)


async def answer_to(url: str, request: bytes, patience_s: float) -> bytes:
    """Send bytes, and return the head of the answer; nothing if none comes: the agent may wait for more of a body."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), patience_s)
    except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
        return b""
    finally:
        writer.close()


@settings(max_examples=150)
@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "HEAD", "OPTIONS", "G\x7fT"]),
    target=st.sampled_from(TARGETS),
    given_token=st.none() | TOKENS,
    headers=HEADERS,
    token=st.sampled_from([None, "s3cret"]),
)
def test_whatever_is_sent_is_no_mistake_of_the_agent(
    method: str, target: str, given_token: bytes | None, headers: dict[str, bytes], token: str | None
) -> None:
    lines = [f"{method} {target} HTTP/1.1".encode("latin-1")]
    sent = (
        {"Host": b"127.0.0.1"} | ({} if given_token is None else {"Authorization": b"Bearer " + given_token}) | headers
    )
    lines += [name.encode() + b": " + value.translate(None, b"\r\n\0") for name, value in sent.items()]
    request = b"\r\n".join([*lines, b"", b""])

    async def ask() -> bytes:
        async with serve(make_app(FakeService(), token=token, request_bytes_max=1000), "127.0.0.1:0") as url:
            return await answer_to(url, request, 0.2)

    answer = asyncio.run(ask())
    assert b" 500 " not in answer.partition(b"\r\n")[0], (request, answer)


@pytest.mark.parametrize(
    "request_bytes", [b"junk\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]
)
async def test_no_answer_says_what_software_gave_it(request_bytes: bytes) -> None:
    async with serve(make_app(FakeService(), token="s3cret", request_bytes_max=1000), "127.0.0.1:0") as url:
        answer = (await answer_to(url, request_bytes, 20)).lower()
    assert answer.startswith(b"http/1.") and not any(word in answer for word in (b"aiohttp", b"python", b"elf"))
