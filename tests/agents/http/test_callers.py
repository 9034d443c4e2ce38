"""The kernel says whose process called, and only of sockets that are open."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import SimpleNamespace

import pytest
from aiohttp.test_utils import TestClient, TestServer

from elf.agents.http import callers
from elf.agents.http.app import make_app
from elf.agents.http.callers import Callers, End, callers_of_this_user, owner_of
from tests.agents.http.fake_service import FakeService


def ends(writer: asyncio.StreamWriter) -> tuple[End, End]:
    return End(*writer.get_extra_info("peername")[:2]), End(*writer.get_extra_info("sockname")[:2])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_the_owner_of_an_open_socket_is_known(host: str) -> None:
    accepted = asyncio.Queue[asyncio.StreamWriter]()
    async with await asyncio.start_server(lambda _, writer: accepted.put_nowait(writer), host, 0) as server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection(host, port)
        called = await accepted.get()
        theirs, ours = ends(called)
        assert owner_of(theirs, ours) == os.geteuid()
        assert owner_of(theirs._replace(port=1), ours) is None
        writer.close()
        await writer.wait_closed()
        called.close()
        assert owner_of(theirs, ours) is None, "whatever the kernel says of one that is closed"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can be somebody else")
async def test_another_user_is_another_user() -> None:
    found = asyncio.Queue[int | None]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        found.put_nowait(owner_of(*ends(writer)))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        call = f"exec 3<>/dev/tcp/127.0.0.1/{port}; echo -n a >&3; read -n1 <&3"
        process = await asyncio.create_subprocess_exec(
            "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", call
        )
        assert await found.get() == 65534
        await process.wait()


@contextlib.asynccontextmanager
async def called_by(user: int | None, asked: list[End]) -> AsyncGenerator[Callable[..., Awaitable[int]]]:
    """Yield what asks an agent that trusts users 0 and 1000, as a process of some user, and returns the status."""

    def owner(theirs: End, ours: End) -> int | None:
        asked.append(theirs)
        return user

    known = Callers(owner, lambda caller: caller in (0, 1000))
    app = make_app(FakeService(), token="s3cret", request_bytes_max=1000, callers=known)
    async with TestClient(TestServer(app)) as client:

        async def status(**headers: str) -> int:
            async with client.get("/v1/jobs", headers=headers) as answer:
                await answer.read()
                return answer.status

        yield status


async def test_a_trusted_user_needs_no_token_and_his_browser_and_proxy_do() -> None:
    asked = list[End]()
    async with called_by(1000, asked) as status:
        assert [await status(), await status()] == [200, 200]
        assert len(asked) == 1, "once a connection"
        assert await status(Host="evil.example") == 403, "a page in the browser of that user"
        assert await status(Origin="http://evil.example") == 403
        for header in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"):
            assert await status(**{header: "10.0.0.1"}) == 401, "a proxy of that user asks for somebody else"


@pytest.mark.parametrize("user", [1001, None], ids=["another", "nobody knows"])
async def test_others_need_the_token(user: int | None) -> None:
    async with called_by(user, []) as status:
        assert await status() == 401
        assert await status(Authorization="Bearer s3cret") == 200


async def test_this_user_is_one_of_those() -> None:
    app = make_app(FakeService(), token="s3cret", request_bytes_max=1000, callers=callers_of_this_user())
    async with TestClient(TestServer(app)) as client, client.get("/v1/jobs") as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("group_name", "members", "trusted"),
    [("elf", ["anna"], [0, 998, 1000]), ("users", ["anna"], [0, 998]), ("elf", [], [0, 998])],
)
def test_members_of_a_group_of_the_agents_own_are_trusted(
    monkeypatch: pytest.MonkeyPatch, group_name: str, members: list[str], trusted: list[int]
) -> None:
    """In one that all users are in, such as `users`, nobody is for that."""
    names = {0: "root", 998: "elf", 1000: "anna", 1001: "bert"}
    monkeypatch.setattr(callers.os, "geteuid", lambda: 998)
    monkeypatch.setattr(callers.os, "getegid", lambda: 998)
    monkeypatch.setattr(callers.pwd, "getpwuid", lambda user: SimpleNamespace(pw_name=names[user], pw_gid=user))
    monkeypatch.setattr(callers.grp, "getgrgid", lambda group: SimpleNamespace(gr_name=group_name))
    monkeypatch.setattr(callers.os, "getgrouplist", lambda name, own: [own, *([998] if name in members else [])])
    trusts = callers_of_this_user()._trusts
    assert [user for user in names if trusts(user)] == trusted
    assert not trusts(4711), "a user without a name"
