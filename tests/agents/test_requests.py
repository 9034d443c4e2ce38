"""Requests and errors cross the network as themselves; any other bytes are refused."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import (
    BadRequestError,
    ElfError,
    JobConflictError,
    JobError,
    JobSpecError,
    UnavailableError,
    UnknownJobError,
)
from agents.requests import Describe, Follow, Query, Reply, contact_at, decode_request, encode, reply_of_error, value_of


@pytest.mark.parametrize(
    "request_", [Query(b"a" * 20, "latest"), Follow(b"a" * 20, 3, 0, 1_000), Describe(b"a" * 20)], ids=repr
)
def test_requests_round_trip(request_: Query | Follow | Describe) -> None:
    assert decode_request(encode(request_)) == request_


@pytest.mark.parametrize(
    "error",
    [
        JobSpecError("unknown word", line=3, column=7, hint="did you mean 'count'?"),
        UnknownJobError("shop/x", ["shop/y"]),
        JobConflictError("stop it first"),
        JobError("no window"),
        BadRequestError("not a window"),
        UnavailableError("come again"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_arrive_as_they_were_raised(error: ElfError) -> None:
    with pytest.raises(type(error)) as failure:
        value_of(encode(reply_of_error(error)))
    assert str(failure.value) == str(error)
    assert getattr(failure.value, "nearest", None) == getattr(error, "nearest", None)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    with contextlib.suppress(msgspec.DecodeError):
        decode_request(data)
    with contextlib.suppress(ElfError):
        value_of(data)


def test_values_come_back() -> None:
    assert value_of(encode(Reply(value={"rows": [1, None, "é"]}))) == {"rows": [1, None, "é"]}
    assert contact_at("127.0.0.1:4250").address == "127.0.0.1:4250"
