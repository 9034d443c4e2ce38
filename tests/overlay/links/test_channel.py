from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.overlay.contract import MESSAGE_BYTES_MAX
from elf.overlay.dht.auth import Secret
from elf.overlay.errors import DecodeError, OverlayError, RemoteProtocolError
from elf.overlay.links.channel import Channel, ChannelSettings
from elf.overlay.links.lanes import ENTRY_BYTES, Inbox, Outbox
from elf.overlay.links.wire import BATCH, BODY_BYTES_MAX, BULK, DATA, PARTIAL, RESEND, Frame, Framer, pack

SETTINGS = ChannelSettings()
SMALL = ChannelSettings(credit_bytes=2 * BODY_BYTES_MAX, trickle_bytes=BODY_BYTES_MAX)
STEP_MS = 100


class Line:
    """Two channels and what is under way between them; `meddle` may change each frame into none, one or more."""

    def __init__(self, ours: ChannelSettings = SETTINGS, secret: Secret | None = None) -> None:
        self.now_ms = 1_000
        self.ends = [Channel(Framer(secret, a, b), ours, self.now_ms) for a, b in ((b"1", b"2"), (b"2", b"1"))]
        self.under_way: list[deque[bytes]] = [deque(), deque()]
        self.got: list[list[bytes]] = [[], []]
        self.sent_frames = 0
        self.meddle: Callable[[int, bytes], list[bytes]] = lambda end, frame: [frame]

    def step(self, *, passes: int = 4) -> None:
        """Let everything arrive that is under way or is said in answer, then let time pass."""
        for _ in range(passes):
            for end in (0, 1):
                channel = self.ends[end]
                channel.tick(self.now_ms)
                if channel.ready or self.now_ms >= channel.due_ms:
                    for frame in channel.frames(self.now_ms):
                        self.sent_frames += 1
                        self.under_way[end].extend(self.meddle(end, frame))
                while self.under_way[end]:
                    self.got[1 - end] += map(
                        bytes, self.ends[1 - end].received(self.under_way[end].popleft(), self.now_ms)
                    )
        self.now_ms += STEP_MS

    @property
    def lost(self) -> bool:
        return any(channel.is_lost(self.now_ms) for channel in self.ends)

    def run(self, done: Callable[[], bool], steps: int = 400) -> None:
        for _ in range(steps):
            if done():
                return
            self.step()
        raise AssertionError("not done in time")


def test_messages_go_both_ways_in_one_frame_per_burst() -> None:
    line = Line()
    for number in range(100):
        line.ends[0].offer(b"a%d" % number)
        line.ends[1].offer(b"b%d" % number)
    line.step(passes=1)
    assert line.got == [[b"b%d" % i for i in range(100)], [b"a%d" % i for i in range(100)]]
    assert line.sent_frames == 2


def test_what_is_patient_goes_with_the_next_message_or_heartbeat() -> None:
    line = Line()
    line.step()
    channel = line.ends[0]
    channel.offer(b"patient", bulk=False, patient=True)
    channel.offer(b"too", bulk=False, patient=True)
    assert channel.patient and not channel.ready
    channel.offer(b"now", bulk=False)
    assert channel.ready and not channel.patient
    channel.offer(b"as well", bulk=False, patient=True)
    assert channel.ready, "what comes after it makes a message no more patient"
    line.step(passes=1)
    assert line.got[1] == [b"patient", b"too", b"now", b"as well"]
    channel.offer(b"later", bulk=False, patient=True)
    line.step()
    assert b"later" not in line.got[1]
    for _ in range(5):
        line.step()
    assert line.got[1][-1] == b"later" and not channel.patient and not line.lost


def test_a_quiet_line_says_something_every_heartbeat_and_no_more() -> None:
    line = Line()
    line.step()
    frames = line.sent_frames
    for _ in range(100):
        line.step()
    assert 36 <= line.sent_frames - frames <= 44, "10 s, two ends, one frame each 500 ms"
    assert not line.lost


def test_silence_beyond_the_lease_is_loss() -> None:
    line = Line()
    line.step()
    line.meddle = lambda end, frame: []
    end_ms = line.now_ms + SETTINGS.lease_ms
    while line.now_ms < end_ms - STEP_MS:
        line.step()
        assert not line.lost
    line.step()
    line.step()
    assert all(channel.is_lost(line.now_ms) for channel in line.ends)


@pytest.mark.parametrize("size", [BODY_BYTES_MAX - 11, BODY_BYTES_MAX, 3 * BODY_BYTES_MAX + 7, MESSAGE_BYTES_MAX])
@pytest.mark.parametrize("bulk", [False, True])
def test_large_messages_go_in_parts_through_a_small_window(size: int, bulk: bool) -> None:
    line = Line(SMALL)
    large = random.Random(size).randbytes(size)
    for message in (b"before", large, b"after"):
        line.ends[0].offer(message, bulk=bulk)
    line.run(lambda: len(line.got[1]) == 3)
    assert line.got[1] == [b"before", large, b"after"]


def test_urgent_messages_pass_a_jam_and_the_jam_is_felt() -> None:
    line = Line()
    for _ in range(6):
        line.step()  # a heartbeat tells the whole grant
    line.ends[1].hold(True)
    load = [random.Random(i).randbytes(100_000) for i in range(120)]
    for message in load:
        line.ends[0].offer(message)
    line.step()
    assert line.ends[0].congested
    taken = len(line.got[1])
    assert SETTINGS.credit_bytes - BODY_BYTES_MAX <= 100_000 * taken <= SETTINGS.credit_bytes + SETTINGS.trickle_bytes
    line.ends[0].offer(b"urgent", bulk=False)
    line.step()
    assert line.got[1][-1] == b"urgent"
    for _ in range(20):
        line.step()
    trickled = 100_000 * (len(line.got[1]) - 1 - taken)
    assert 0 < trickled <= 5 * SETTINGS.trickle_bytes, "2 s of 500 ms each, after what was granted before"
    assert line.ends[0].unacked_bytes <= SETTINGS.credit_bytes
    line.ends[1].hold(False)
    line.run(lambda: len(line.got[1]) == len(load) + 1)
    assert [message for message in line.got[1] if message != b"urgent"] == load
    assert not line.ends[0].congested


def test_a_queue_that_grows_without_end_loses_the_channel() -> None:
    line = Line(ChannelSettings(queue_bytes_max=1_000_000))
    for _ in range(1_000_000 // ENTRY_BYTES // 2):
        line.ends[0].offer(b"")
    assert not line.lost
    for _ in range(1_000_000 // ENTRY_BYTES):
        line.ends[0].offer(b"")
    assert line.ends[0].is_lost(line.now_ms)
    assert "too slow" in (line.ends[0].failure or "")


def test_what_was_not_sent_can_be_taken_back() -> None:
    channel = Channel(Framer(None), SMALL, 0)
    large = bytes(4 * BODY_BYTES_MAX)
    for message in (b"gone", large, b"left"):
        channel.offer(message)
    channel.offer(b"urgent", bulk=False)
    assert len(channel.frames(0)) == 4, "urgent; gone; two parts of the large one, as the first grant allows"
    channel.offer(b"urgent too", bulk=False)
    assert channel.drain() == ([b"urgent too"], [large, b"left"])
    assert channel.queued_bytes == 0


class Adversary:
    """Drops, damages, repeats and reorders frames as a list of choices says, then lets everything pass."""

    def __init__(self, choices: list[int], rng: random.Random) -> None:
        self.choices, self.rng = deque(choices), rng
        self.kept: list[bytes | None] = [None, None]

    def __call__(self, end: int, frame: bytes) -> list[bytes]:
        match self.choices.popleft() if self.choices else 0:
            case 1:
                return []
            case 2:
                damaged = bytearray(frame)
                damaged[self.rng.randrange(len(frame))] ^= 1 << self.rng.randrange(8)
                return [bytes(damaged)]
            case 3:
                return [frame, frame]
            case 4:
                self.kept[end] = frame
                return []
            case 5:
                return [frame[: self.rng.randrange(len(frame))]]
        kept, self.kept[end] = self.kept[end], None
        return [frame] if kept is None else [frame, kept]


sizes = st.sampled_from([0, 1, 100, 5_000, BODY_BYTES_MAX, 300_000])
loads = st.lists(st.tuples(st.integers(0, 1), st.booleans(), sizes), max_size=30)


@settings(max_examples=150)
@given(loads, st.lists(st.integers(0, 5), max_size=60), st.integers(0, 1 << 32), st.booleans())
def test_whatever_the_transport_does_messages_come_once_in_order_or_the_channel_is_lost(
    load: list[tuple[int, bool, int]], choices: list[int], seed: int, at_once: bool
) -> None:
    line, rng = Line(SMALL), random.Random(seed)
    line.meddle = Adversary(choices, rng)
    sent: dict[tuple[int, bool], list[bytes]] = {(end, bulk): [] for end in (0, 1) for bulk in (False, True)}
    for number, (end, bulk, size) in enumerate(load):
        message = b"%d %d %d " % (end, bulk, number) + rng.randbytes(size)
        sent[end, bulk].append(message)
        line.ends[end].offer(message, bulk=bulk)
        if not at_once:
            line.step(passes=1)
    for _ in range(80):
        line.step(passes=2)
        for end in (0, 1):
            got = line.got[1 - end]
            for bulk in (False, True):
                lane = [message for message in got if message.startswith(b"%d %d " % (end, bulk))]
                assert lane == sent[end, bulk][: len(lane)], "in order, each once"
            assert line.ends[end].unacked_bytes <= 3 * SMALL.credit_bytes
        if line.lost:
            return
    assert len(line.got[0]) + len(line.got[1]) == len(load), "after the faults everything arrives"
    for channel in line.ends:
        assert channel.unacked_bytes == 0
        assert channel.queued_bytes == 0


def test_few_faults_do_not_lose_a_channel() -> None:
    line = Line()
    rng = random.Random(7)
    line.meddle = Adversary([rng.choice([0] * 35 + [1, 2, 3, 4, 5]) for _ in range(20_000)], rng)
    for number in range(2_000):
        line.ends[number % 2].offer(b"%d" % number + bytes(number))
        line.step(passes=1)
        assert not line.lost
    line.run(lambda: len(line.got[0]) == len(line.got[1]) == 1_000)
    assert [int(m.split(b"\0")[0]) for m in line.got[0]] == list(range(1, 2_000, 2))
    assert sum(channel.damaged for channel in line.ends) > 50
    assert sum(channel.resent for channel in line.ends) > 50
    assert sum(channel.repeated for channel in line.ends) > 50


def test_a_frame_that_never_arrives_whole_ends_the_channel() -> None:
    line = Line(ChannelSettings(lease_ms=60_000))
    line.ends[0].offer(b"x" * 100)
    line.meddle = lambda end, frame: [bytes([frame[0] ^ 1]) + frame[1:]] if len(frame) > 100 else [frame]
    line.run(lambda: line.lost)
    assert "does not arrive" in str([channel.failure for channel in line.ends])


def raw(flags: int = 0, number: int = 1, serial: int = 0, ack: int = 0, grant: int = 0, body: bytes = b"") -> bytes:
    return Framer(None).wrap(Frame(flags, number, serial, ack, grant, body))


def test_a_peer_that_breaks_the_rules_is_refused() -> None:
    noise = random.Random(1).randbytes(BODY_BYTES_MAX - 20)
    body, _, _ = pack([noise])
    channel = Channel(Framer(None), SMALL, 0)
    with pytest.raises(RemoteProtocolError, match="more than were granted"):
        for number in range(10):
            channel.received(raw(DATA | BULK, number + 1, number, body=body), 0)
    with pytest.raises(RemoteProtocolError, match="never sent"):
        Channel(Framer(None), SMALL, 0).received(raw(ack=1), 0)
    with pytest.raises(RemoteProtocolError, match="not a batch"):
        Channel(Framer(None), SMALL, 0).received(raw(DATA | BATCH, body=b"\xc1"), 0)
    channel = Channel(Framer(None), SMALL, 0)
    with pytest.raises(DecodeError, match="in parts"):
        for number in range(200):
            channel.received(raw(DATA | PARTIAL, number + 1, number, body=body), 0)
    keyed = Channel(Framer(Secret([b"1" * 32]), b"x", b"y"), SMALL, 0)
    with pytest.raises(DecodeError, match="valid tag"):
        keyed.received(raw(body=b"x" * 100), 0)


def test_a_peer_that_grants_all_and_acknowledges_nothing_takes_bounded_memory() -> None:
    channel = Channel(Framer(None), SMALL, 0)
    channel.received(raw(grant=(1 << 62) - 1), 0)
    for number in range(100):
        channel.offer(random.Random(number).randbytes(100_000))
    channel.frames(0)
    assert channel.unacked_bytes <= 3 * SMALL.credit_bytes
    frames = 0
    for number in range(2, 100):
        channel.received(raw(RESEND, number, 0, grant=(1 << 62) - 1), 0)
        if channel.is_lost(0):
            break
        frames += len(channel.frames(0))
    assert channel.is_lost(0), "it cannot make us repeat for ever"
    assert frames < 200


@given(st.binary(max_size=200), st.integers(0, 5))
def test_any_frame_leaves_a_channel_whole(data: bytes, earlier: int) -> None:
    line = Line()
    for number in range(earlier):
        line.ends[0].offer(b"%d" % number)
        line.step(passes=1)
    assert line.ends[1].received(data, line.now_ms) == []
    line.ends[0].offer(b"after")
    line.run(lambda: line.got[1][-1:] == [b"after"])


@given(st.lists(st.binary(max_size=300), max_size=30), st.integers(BODY_BYTES_MAX, 2 * BODY_BYTES_MAX))
def test_lanes_batch_and_join(messages: list[bytes], room: int) -> None:
    out, into = Outbox(), Inbox()
    for message in messages:
        out.add(message)
    joined: list[bytes] = []
    while len(out):
        batch, partial = out.take(room)
        joined += into.join(batch, partial)
    assert joined == messages
    assert out.bytes == 0


def test_settings_must_fit_each_other() -> None:
    for wrong in ({"credit_bytes": 1_000}, {"trickle_bytes": 1}, {"heartbeat_ms": 500, "lease_ms": 900}):
        with pytest.raises(OverlayError):
            ChannelSettings(**wrong)
