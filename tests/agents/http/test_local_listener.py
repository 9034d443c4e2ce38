"""Who can open the API's socket needs no token there, and the file's mode says who can."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pathlib
import shutil
import socket
import stat

import aiohttp
import pytest

from elf.agents.http import local_listener as module
from elf.agents.http.app import make_app, serve
from elf.agents.settings import local_sockets
from tests.agents.http.fake_service import FakeService


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Where sockets are made."""
    made = tmp_path / "elf"
    made.mkdir(mode=0o750)
    monkeypatch.setattr(local_sockets, "SERVICE_FOLDER", made)
    return made


def places(folder: pathlib.Path) -> list[pathlib.Path]:
    return [*folder.iterdir()]


def serving(bind: str = "127.0.0.1:0") -> contextlib.AbstractAsyncContextManager[str]:
    return serve(make_app(FakeService(), token="s3cret", request_bytes_max=1000), bind)


async def status(place: pathlib.Path, **headers: str) -> int:
    connector = aiohttp.UnixConnector(str(place))
    async with (
        aiohttp.ClientSession(connector=connector, headers=headers) as session,
        session.get("http://127.0.0.1/v1/jobs") as answer,
    ):
        return answer.status


async def test_who_can_open_it_needs_no_token_and_whom_he_forwards_for_does(folder: pathlib.Path) -> None:
    async with serving() as url:
        [place] = places(folder)
        assert place.name == f"api-{url.rpartition(':')[2]}.sock"
        assert await status(place) == 200
        assert await status(place, **{"X-Forwarded-For": "10.0.0.1"}) == 401
        assert await status(place, Host="evil.example") == 403
        async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/jobs") as answer:
            assert answer.status == 401, "whom nobody knows sends the token to the port, as before"
    assert not places(folder)


@pytest.mark.parametrize(("has_group", "mode"), [(True, 0o660), (False, 0o600)])
async def test_the_mode_is_that_of_the_user_and_its_own_group(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, has_group: bool, mode: int
) -> None:
    monkeypatch.setattr(module, "has_own_group", lambda: has_group)
    umask = os.umask(0)
    try:
        async with serving():
            assert [stat.S_IMODE(place.stat().st_mode) for place in places(folder)] == [mode]
    finally:
        os.umask(umask)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can be somebody else")
async def test_another_user_cannot_open_it(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for above in (folder, *folder.parents):
        if above.is_relative_to(tmp_path.parents[1]):
            above.chmod(0o755)
    async with serving():
        [place] = places(folder)
        call = f"import socket; socket.socket(socket.AF_UNIX).connect({str(place)!r})"
        process = await asyncio.create_subprocess_exec(
            *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/env", "python3", "-c", call),
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await process.communicate()
    assert process.returncode != 0 and b"PermissionError" in said, said


async def test_what_a_dead_agent_left_is_replaced_and_a_live_one_is_left_alone(
    folder: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    place = folder / local_sockets.name_of(port)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))
    async with serving(f"127.0.0.1:{port}"):
        assert await status(place) == 200
        with caplog.at_level(logging.WARNING):
            assert module.local_listener(port) is None
        assert "another agent answers there" in caplog.text
        assert await status(place) == 200


async def test_without_a_folder_the_port_is_enough(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(local_sockets, "SERVICE_FOLDER", tmp_path / "none")
    async with serving() as url, aiohttp.ClientSession() as session, session.get(f"{url}/healthz") as answer:
        assert answer.status == 200
