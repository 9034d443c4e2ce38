"""Answers and errors cross the network as themselves, long ones compressed; any other bytes are refused."""

import contextlib
import random

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import (
    BadRequestError,
    ElfError,
    ExpiredError,
    JobConflictError,
    JobError,
    JobSpecError,
    StoppedError,
    UnavailableError,
    UnknownJobError,
)
from elf.agents.extensions.application_contract import ApplicationError
from elf.agents.language.installed.calls import FunctionError
from elf.agents.wire.replies import PLAIN_BYTES_MAX, REPLY_BYTES_MAX, Reply, encode_reply, reply_of_error, value_of
from elf.overlay.contract import PAYLOAD_BYTES_MAX

ROWS = [{"user": f"u{number % 50_000}", "n": number % 97, "cents": number * 31 % 9_973} for number in range(20_000)]


@pytest.mark.parametrize(
    "error",
    [
        JobSpecError("unknown word", line=3, column=7, hint="did you mean 'count'?"),
        JobSpecError("no application 'x' is installed", setting="options.application"),
        UnknownJobError("shop/x", ["shop/y"]),
        UnknownJobError("shop/x", ["shop/y"], "it was stopped for good"),
        StoppedError("resume it"),
        JobConflictError("stop it first"),
        ExpiredError("no longer retained"),
        JobError("no window"),
        BadRequestError("not a window"),
        UnavailableError("come again"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_arrive_as_they_were_raised(error: ElfError) -> None:
    with pytest.raises(type(error)) as failure:
        value_of(encode_reply(reply_of_error(error)))
    assert str(failure.value) == str(error)
    for member in ("nearest", "setting"):
        assert getattr(failure.value, member, None) == getattr(error, member, None)


@pytest.mark.parametrize("error", [FunctionError("the function f fails: no"), ApplicationError("on_start failed: no")])
def test_errors_of_functions_and_applications_arrive_as_the_jobs(error: JobError) -> None:
    with pytest.raises(ElfError) as failure:
        value_of(encode_reply(reply_of_error(error)))
    assert (type(failure.value), str(failure.value)) == (JobError, str(error))


def test_short_and_long_values_come_back() -> None:
    for value in ({"rows": [1, None, "é"]}, {"rows": ROWS}, None):
        assert value_of(encode_reply(Reply(value=value))) == value


def test_a_million_rows_fit_into_a_message() -> None:
    body = encode_reply(Reply(value={"rows": ROWS * 50}))
    assert len(value_of(body)["rows"]) == 1_000_000
    assert len(body) <= PAYLOAD_BYTES_MAX


def test_what_cannot_be_compressed_goes_as_it_is() -> None:
    value = random.Random(1).randbytes(PAYLOAD_BYTES_MAX - 64)
    assert value_of(encode_reply(Reply(value=value))) == value


@pytest.mark.parametrize("size", [PAYLOAD_BYTES_MAX + 1, REPLY_BYTES_MAX + 1])
def test_what_no_message_can_carry_is_said(size: int) -> None:
    body = encode_reply(Reply(value=random.Random(1).randbytes(size)))
    with pytest.raises(BadRequestError, match=f"the answer is too large: {size >> 20} MiB, .* ask for fewer rows"):
        value_of(body)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_reply_or_refused(data: bytes) -> None:
    for body in (data, b"\xc1" + data):
        with contextlib.suppress(ElfError):
            value_of(body)


@given(st.data())
def test_a_damaged_long_reply_is_refused_or_another_reply(data: st.DataObject) -> None:
    body = bytearray(encode_reply(Reply(value="x" * PLAIN_BYTES_MAX)))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ElfError):
        value_of(bytes(body[: data.draw(st.integers(0, len(body)))]))


def test_a_reply_that_would_fill_the_memory_is_refused_unread() -> None:
    bomb = lz4.frame.compress(bytes(REPLY_BYTES_MAX + 1), store_size=True)
    assert len(bomb) < PAYLOAD_BYTES_MAX
    with pytest.raises(UnavailableError, match=f"{REPLY_BYTES_MAX + 1} bytes is over the limit of {REPLY_BYTES_MAX}"):
        value_of(b"\xc1" + bomb)
    lying = lz4.frame.compress(bytes(1_000_000), store_size=False)
    with pytest.raises(UnavailableError, match="no reply"):
        value_of(b"\xc1" + lying)
