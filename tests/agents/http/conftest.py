"""A client of the API with the in-memory agent behind it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from elf.agents.http.app import make_app
from tests.agents.http.fake_service import FakeService

REQUEST_BYTES_MAX = 512 << 10


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
async def client(service: FakeService) -> AsyncGenerator[TestClient[Any, Any], None]:
    app = make_app(service, token=None, request_bytes_max=REQUEST_BYTES_MAX)
    async with TestClient(TestServer(app)) as client:
        yield client
