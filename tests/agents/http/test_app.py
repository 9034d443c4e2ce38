"""Serving the API: at an address of its own."""

import pytest
from aiohttp import web

from agents.errors import ConfigError
from agents.http.app import serve


async def test_an_address_that_is_in_use_is_refused_with_what_to_do() -> None:
    async with serve(web.Application(), "127.0.0.1:0") as url:
        taken = url.removeprefix("http://")
        with pytest.raises(ConfigError) as refused:
            async with serve(web.Application(), taken):
                pass
    assert str(refused.value) == f"api.bind = '{taken}' cannot be used: the address is in use; choose another port"


async def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"api.bind = '192.0.2.1:0' cannot be used: "):
        async with serve(web.Application(), "192.0.2.1:0"):
            pass
