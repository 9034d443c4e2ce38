from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay import messages
from elf.overlay.contract import CONTROL_BYTES_MAX, CONTROL_ENTRIES_MAX, ORIGIN, Absence, LogEntry, Mark, Record
from elf.overlay.errors import DecodeError
from elf.overlay.messages import Claim, Message, RecordMark

APP = b"a" * 20
EXAMPLES: list[Message] = [
    messages.Join(APP, 3, "127.0.0.1:5"),
    messages.Join(APP, 3, None),
    messages.Accept(APP, 3),
    messages.Accept(APP, 3, "127.0.0.1:9"),
    messages.Redirect(APP, 3, "[::1]:7"),
    messages.Redirect(APP, 3, None, messages.Reason.FULL),
    messages.Heartbeat(APP, 3, True, 9, -5),
    messages.Heartbeat(APP, 3, False, 0, 0, 16, None),
    messages.Heartbeat(APP, 3, True, 0, 0, 1, "10.0.0.1:4250", room=True),
    messages.Drop(APP, 3, "127.0.0.1:9"),
    messages.Unlink(APP, 3),
    messages.Digest(APP, (RecordMark("k", 1, b"d" * 16),), True),
    messages.Compare(APP, b"s" * 16),
    messages.ControlAsk(APP, 3, Mark(5, 7)),
    messages.ControlSeen(APP, 3, Mark(5, 7)),
    messages.ControlEntries(APP, 3, ORIGIN, (LogEntry(Mark(5, 1), b"x"), LogEntry(Mark(6, 2), b""))),
    messages.Records(APP, (Record("k", 1, b"body"),)),
    messages.Contribution(APP, 3, Claim(1, 2, ("x", "y"), b"p")),
    messages.Announce(APP, "x", 1, 2, True),
    messages.Status(APP, "x", 1, 2, (Absence(0, 1),)),
    messages.Settle(APP, 1, 2, 3, ("x",)),
    messages.Retire(APP, "x"),
    messages.Presence(APP, ("x", "y"), True),
    messages.Request(b"i" * 8, APP, b"q", ("127.0.0.1:5",), False, 10),
    messages.Reply(b"i" * 8, 0, b"a", ()),
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_messages_survive_the_wire(message: Message) -> None:
    assert messages.decode(messages.encode(message)) == message


@pytest.mark.parametrize(
    "body",
    [
        [1, APP, 3, "no address"],
        [1, APP[:19], 3, None],
        [1, APP, -1, None],
        [1, APP, 1, None, -1],
        [2, APP, 1, "no address"],
        [3, APP, 1, None, 3],
        [4, APP, 1, True, 0, 0, 1 << 21],
        [16, APP, 1, None],
        [8, APP, 1, [2, 2, ["x"], None]],
        [17, APP, [], True],
        [8, APP, 1, [1, 2, [], None]],
        [8, APP, 1, [1, 2, ["x", "x"], None]],
        [7, APP, [["", 1, b""]]],
        [7, APP, [["k", -1, b""]]],
        [7, APP, [["k", 1, b"x" * (messages.RECORD_BYTES_MAX + 1)]]],
        [13, b"i" * 8, APP, b"", ["127.0.0.1:1"] * 33, False, 10],
        [20, APP, 3, [-1, 0]],
        [20, APP, 3, [1 << 62, 0]],
        [22, APP, 3, [5, 1], []],
        [22, APP, 3, [5, 1], [[[5, 3], b""]]],
        [22, APP, 3, [5, 1], [[[4, 2], b""]]],
        [22, APP, 3, [0, 0], [[[0, 1], b""]]],
        [22, APP, 3, [5, 1], [[[5, 2], b"x" * (CONTROL_BYTES_MAX + 1)]]],
        [22, APP, 3, [5, 1], [[[5, 2 + i], b""] for i in range(CONTROL_ENTRIES_MAX + 1)]],
        [23, APP, b"s" * 15],
        [99],
        [[[[]]]],
    ],
    ids=str,
)
def test_illegal_fields_are_refused(body: object) -> None:
    with pytest.raises(DecodeError):
        messages.decode(msgspec.msgpack.encode(body))


@given(st.binary(max_size=300))
def test_any_bytes_decode_or_raise_the_one_error(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        messages.decode(data)


@given(st.sampled_from(EXAMPLES), st.data())
def test_damaged_messages_decode_or_raise_the_one_error(message: Message, data: st.DataObject) -> None:
    raw = bytearray(messages.encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(DecodeError):
        messages.decode(bytes(raw))


def test_deep_nesting_is_no_crash() -> None:
    with pytest.raises(DecodeError):
        messages.decode(b"\x91" * 100_000)
