"""A client asks an agent of its own machine through the agent's socket, without a word, and at its port otherwise."""

from __future__ import annotations

import contextlib
import pathlib
import socket

import pytest

import elf
from elf.agents.errors import ConfigError
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


def the_one(folder: pathlib.Path) -> pathlib.Path:
    [place] = folder.iterdir()
    return place


def serving(bind: str = "127.0.0.1:0") -> contextlib.AbstractAsyncContextManager[str]:
    return serve(make_app(FakeService(), token="s3cret", request_bytes_max=100_000), bind)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_the_socket_is_found_by_the_port(folder: pathlib.Path, name: str) -> None:
    async with serving() as url, elf.AsyncClient(url.replace("127.0.0.1", name)) as client:
        assert len(await client.jobs()) == 1
        assert await client.ingest("clicks", [{"a": 1}]) == 1
        the_one(folder).unlink()
        with pytest.raises(ConfigError, match="wants its API token"):
            await client.jobs()


async def test_a_dead_socket_is_no_obstacle(folder: pathlib.Path) -> None:
    async with serving() as url:
        place = the_one(folder)
        place.unlink()
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(place))
        async with elf.AsyncClient(url, token="s3cret") as client:
            assert len(await client.jobs()) == 1
            assert await client.ingest("clicks", [{"a": 1}]) == 1, "what is sent is sent whole at the other door"


async def test_another_machines_agent_is_asked_at_its_port(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(folder / local_sockets.name_of(80)))
        used = list[int]()
        monkeypatch.setattr("elf.client.sessions.socket_to_use", lambda port, _: used.append(port))
        for url in ("http://192.0.2.1:80", "https://127.0.0.1:80", "http://web1:80"):
            async with elf.AsyncClient(url, timeout=0.01) as client:
                with pytest.raises(elf.UnavailableError):
                    await client.jobs()
    assert used == []


async def test_an_address_may_bring_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elf.agents.http.app.local_listener", lambda port: None)
    async with serving() as url, serving() as other:
        async with elf.AsyncClient(f"{url}/#token=s3cret") as client:
            assert len(await client.jobs()) == 1
        async with elf.AsyncClient(f"{url}#token=wrong-0123,{other}", token="s3cret") as client:
            with pytest.raises(ConfigError) as caught:
                await client.jobs()
            assert "wrong-0123" not in str(caught.value)
        async with elf.AsyncClient("http://127.0.0.1:1/#token=wrong-0123", timeout=0.1) as client:
            with pytest.raises(elf.UnavailableError) as told:
                await client.jobs()
            assert "wrong-0123" not in str(told.value)
