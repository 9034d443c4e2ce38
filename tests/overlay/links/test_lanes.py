"""Which messages may wait, and what comes out of the lanes of a link."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from elf.overlay.links.lanes import Inbox, Outbox, is_patient
from elf.overlay.links.wire import BODY_BYTES_MAX
from elf.overlay.messages import Settle, Unlink

APP = bytes(20)


def test_only_a_verdict_that_names_nobody_may_wait() -> None:
    assert is_patient(Settle(APP, 1, 4, 5, ()))
    assert not is_patient(Settle(APP, 1, 4, 5, ("w1",))), "somebody's data are to be sent again"
    assert not is_patient(Settle(APP, 1, 4, 5, (), ("w1",)))
    assert not is_patient(Unlink(APP, 1))


@given(st.lists(st.binary(max_size=300) | st.integers(1, 3 * BODY_BYTES_MAX).map(bytes), max_size=12), st.data())
@settings(max_examples=50)
def test_what_is_put_in_comes_out_whole_and_in_order(messages: list[bytes], data: st.DataObject) -> None:
    outbox, inbox = Outbox(), Inbox()
    came: list[bytes] = []
    waiting = list(messages)
    while waiting or len(outbox):
        for _ in range(data.draw(st.integers(0, len(waiting)))):
            outbox.add(waiting.pop(0))
        batch, partial = outbox.take(BODY_BYTES_MAX)
        assert sum(map(len, batch)) <= BODY_BYTES_MAX
        came += map(bytes, inbox.join(list(batch), partial)) if batch else []
    assert came == messages and outbox.bytes == 0


def test_what_was_sent_in_part_is_sent_again_elsewhere() -> None:
    outbox, long = Outbox(), bytes(2 * BODY_BYTES_MAX)
    for message in (long, b"a"):
        outbox.add(message)
    assert outbox.take(BODY_BYTES_MAX)[1]
    assert outbox.drain() == [long, b"a"]
    assert len(outbox) == outbox.bytes == 0 and outbox.take(BODY_BYTES_MAX) == ([], False)
