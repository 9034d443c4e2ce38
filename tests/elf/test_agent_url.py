"""Where clients and the command line look for an agent."""

import inspect

import pytest

import elf
from elf.agent_url import DEFAULT_URL, check_url
from elf.agents.errors import ConfigError
from elf.agents.settings.config import API_PORT
from elf.client.problems import error_of


def test_the_default_is_where_an_agent_listens() -> None:
    assert f"http://127.0.0.1:{API_PORT}" == DEFAULT_URL == elf.client.DEFAULT_URL
    assert inspect.signature(elf.connect).parameters["url"].default == DEFAULT_URL
    assert f"{DEFAULT_URL} unless set" in str(error_of(404, b"<html>", "http://web:80"))


def test_what_is_no_url_is_told_how_one_looks() -> None:
    check_url("https://web1:4260")
    with pytest.raises(ConfigError, match=f"'web1:4260' is not an agent's URL; write it like {DEFAULT_URL}"):
        check_url("web1:4260")
