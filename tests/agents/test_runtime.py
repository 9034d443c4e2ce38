"""How the door of an agent's API is made: closed unless somebody says otherwise."""

import os
import pathlib
import stat

import pytest

from elf.agents.errors import ConfigError
from elf.agents.runtime import TOKEN_NAME, ApiDoor, door_of
from elf.agents.settings.config import AgentConfig, AgentSection, ApiSection


def config(folder: pathlib.Path, **api: object) -> AgentConfig:
    return AgentConfig(agent=AgentSection(data=str(folder)), api=ApiSection(**api))  # type: ignore[arg-type]


def test_a_token_is_made_once_and_read_by_its_user_alone(tmp_path: pathlib.Path) -> None:
    umask = os.umask(0)
    try:
        token, callers, is_new = door_of(config(tmp_path))
    finally:
        os.umask(umask)
    file = tmp_path / TOKEN_NAME
    assert token is not None and len(token) == 64 and token == file.read_text().strip()
    assert is_new and callers is not None and stat.S_IMODE(file.stat().st_mode) == 0o600
    again = door_of(config(tmp_path))
    assert again.token == token and not again.is_new
    file.write_text("")
    with pytest.raises(ConfigError, match="does not hold at least 16"):
        door_of(config(tmp_path))


def test_the_operators_token_is_everybodys(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef")
    file.chmod(0o600)
    assert door_of(config(tmp_path, token_file=str(file))) == ApiDoor("0123456789abcdef", None)


def test_an_open_api_takes_no_token(tmp_path: pathlib.Path) -> None:
    assert door_of(config(tmp_path, open=True)) == ApiDoor(None, None)
    assert not (tmp_path / TOKEN_NAME).exists()
    with pytest.raises(ConfigError, match="leave out one of them"):
        config(tmp_path, open=True, token_file="x")
    with pytest.raises(ConfigError, match="open to the network but there is no token"):
        config(tmp_path, open=True, bind="0.0.0.0:4260")
