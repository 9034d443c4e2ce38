"""Any bytes decode or raise the declared error, and cost no more memory than they may: 20,000 damaged frames and bombs.

`scripts/fuzz` runs the same targets with a million.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import lz4.block
import lz4.frame
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.worker import payload
from elf.cbt import PaoDecodeError
from elf.cbt import decode as decode_block
from elf.overlay.dht.messages import DATAGRAM_BYTES_MAX
from elf.overlay.errors import DecodeError
from elf.overlay.links import wire
from elf.overlay.links.proofs import GREETING_BYTES_MAX
from tests.fuzz import run
from tests.fuzz.mutations import NESTS, TOKENS
from tests.fuzz.pao_examples import PLAN, SCHEMA
from tests.fuzz.targets import Target, targets

INPUTS = 20_000
ALL = targets()
MIB = 1 << 20
by_target = pytest.mark.parametrize("target", ALL, ids=lambda target: target.name)


class Memory:
    """The most memory the process held since the start of this block beyond what it held then; libraries included."""

    def __enter__(self) -> Memory:
        Path("/proc/self/clear_refs").write_text("5")
        self._before = run.resident_bytes()
        return self

    def __exit__(self, *error: object) -> None:
        status = Path("/proc/self/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        self.grown_bytes = peak * 1024 - self._before


def test_damaged_frames_decode_or_raise_the_declared_error_and_memory_stays_flat() -> None:
    half = [share // 2 for share in run.shares(ALL, INPUTS)]
    outcomes = [run.fuzz(target, 1, range(count)) for target, count in zip(ALL, half, strict=True)]
    with Memory() as memory:
        outcomes += [run.fuzz(target, 2, range(count + 1)) for target, count in zip(ALL, half, strict=True)]
    assert [finding for outcome in outcomes for finding in outcome.findings] == []
    assert sum(outcome.inputs for outcome in outcomes) >= INPUTS
    assert memory.grown_bytes < 24 * MIB


@by_target
def test_real_frames_are_accepted(target: Target) -> None:
    """Else nothing would be tested but the first check. Some samples are for a neighbouring target."""
    accepted = sum(not run.feed(target, sample) for sample in target.samples)
    assert accepted >= len(target.samples) / 2


@by_target
@settings(max_examples=40)
@given(data=st.data())
def test_any_bytes_decode_or_raise_the_declared_error(target: Target, data: st.DataObject) -> None:
    sample = data.draw(st.sampled_from(target.samples))
    at = data.draw(st.integers(0, len(sample)))
    run.feed(target, sample[:at] + data.draw(st.binary(max_size=40)) + sample[at + data.draw(st.integers(0, 40)) :])
    run.feed(target, data.draw(st.binary(max_size=300)))


@by_target
def test_bombs_are_refused_within_limits(target: Target) -> None:
    bombs = [nest * 100_000 for nest in NESTS] + TOKENS
    # Behind the first elements of a real message, so that a decoder that skips what it does not know has to skip it.
    bombs += [sample[:at] + bomb for sample in target.samples[:3] for at in (1, 2, len(sample) // 2) for bomb in bombs]
    with Memory() as memory:
        for bomb in bombs:
            run.feed(target, bomb)
    assert memory.grown_bytes < 32 * MIB


def test_a_compressed_body_that_claims_or_holds_too_much_costs_nothing() -> None:
    bomb = lz4.block.compress(bytes(200 * MIB), store_size=True)
    claims = [
        size.to_bytes(4, "little") + bomb[4:] for size in (0, 1, wire.BODY_BYTES_MAX, (1 << 31) - 1, (1 << 32) - 1)
    ]
    with Memory() as memory:
        for body in (bomb, *claims, b"", b"\x01"):
            with pytest.raises(DecodeError):
                wire.unpack(wire.Frame(wire.DATA | wire.COMPRESSED, 1, 0, 0, 0, body))
    assert memory.grown_bytes < 8 * MIB


@pytest.mark.parametrize("piece", [b"\xc0", b"\x90", b"\xa0", b"\x80", b"\x9f" + b"\x90" * 15], ids=bytes.hex)
@pytest.mark.parametrize("head", [b"", b"\x94\x01\x00", b"\x94\x01\x00\x90"], ids=["block", "names", "columns"])
def test_a_block_of_small_objects_costs_what_it_decompresses_to(head: bytes, piece: bytes) -> None:
    count = (32 * MIB) // len(piece)
    bomb = lz4.frame.compress(head + b"\xdd" + count.to_bytes(4) + piece * count, store_size=True)
    with Memory() as memory:
        with pytest.raises(PaoDecodeError) as caught:
            decode_block(bomb, SCHEMA)
        with pytest.raises(PaoDecodeError):
            payload.merge([msgspec.msgpack.encode((payload.Notes(), bomb))], PLAN)
    assert memory.grown_bytes < 72 * MIB, "the bytes and one copy"
    assert len(str(caught.value)) < 5_000, "nor does the error repeat them"


def test_a_block_that_lies_about_its_size_is_refused() -> None:
    honest = lz4.frame.compress(bytes(MIB), store_size=True)
    unsized = lz4.frame.compress(bytes(64 * MIB), store_size=False)
    huge = bytearray(honest)
    huge[6:14] = (1 << 40).to_bytes(8, "little")
    for block in (unsized, bytes(huge), honest[:-8], honest + b"x"):
        with Memory() as memory, pytest.raises(PaoDecodeError):
            decode_block(block, SCHEMA)
        assert memory.grown_bytes < 8 * MIB


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("dht message", DATAGRAM_BYTES_MAX + 1),
        ("hello", GREETING_BYTES_MAX + 1),
        ("proof", GREETING_BYTES_MAX + 1),
        ("frame", wire.FRAME_BYTES_MAX + 1),
        ("message", (16 << 20) + 1),
    ],
)
def test_oversized_frames_are_refused_before_they_are_read(name: str, size: int) -> None:
    target = next(target for target in ALL if target.name == name)
    with pytest.raises(target.errors, match=r"over the limit|at most"):
        target.feed(bytes(size))


def test_an_input_follows_from_its_name_alone() -> None:
    target = ALL[0]
    assert [run.input_of(target, 1, n) for n in range(50)] == [run.input_of(target, 1, n) for n in range(50)]
    assert run.input_of(target, 1, 5) != run.input_of(target, 2, 5)
    digest = hashlib.sha256(b"".join(run.input_of(Target("x", len, [b"abcdefgh"], ()), 1, n) for n in range(50)))
    assert digest.hexdigest()[:16] == "5347e658c9574090", "also of the interpreter's hash seed"


def test_a_finding_fails_the_run_and_can_be_repeated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def weak(data: bytes) -> None:
        if data[:1] == b"A":
            raise KeyError("weak")

    monkeypatch.setattr(run, "targets", lambda: [Target("weak", weak, [b"abcdefgh"], (ValueError,))])
    assert run.main(["--inputs", "3000"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "FOUND KeyError" in next(line for line in lines if line.startswith("FOUND"))
    words = next(line for line in lines if "scripts/fuzz" in line).split()
    assert run.main(["--seed", "1", "--target", "weak", "--number", words[-1]]) == 1
    assert run.main(["--seed", "1", "--target", "weak", "--inputs", "1"]) == 0
    with pytest.raises(SystemExit):
        run.main(["--target", "nothing of this name"])
