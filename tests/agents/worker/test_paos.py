"""PAOs of several kinds in a row: cut anywhere and put together again they are the same, also through bytes."""

from __future__ import annotations

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.worker import paos
from elf.agents.worker.paos import Paos, by_interval, decode_open, encode_open
from elf.agents.worker.payload import Notes, merge, pack, unpack
from elf.cbt import INTERVAL, PaoDecodeError, claimed_bytes, encode
from tests.agents.plans import events, plan_of

PLANS = {
    0: plan_of(),
    2: plan_of("SELECT cents, max(product) AS p FROM clicks GROUP BY cents, window(ts, '2 seconds')"),
}
VERSIONS = Versions(
    [
        Compiled(Version(number=1, definition=PLANS[0].definition), PLANS[0]),
        Compiled(Version(number=2, definition=PLANS[2].definition, since=5, begins=5, pao_kind=2), PLANS[2]),
    ]
)
PARTS = st.lists(st.tuples(st.sampled_from([0, 2]), st.integers(0, 4), st.integers(0, 9)), max_size=5)


def paos_of(parts: list[tuple[int, int, int]]) -> Paos:
    """Parts of some kind with so many rows in an interval."""
    return Paos(
        (kind, PLANS[kind].reduce(events([(2_000 * at, f"p{n}", n) for n in range(count)])))
        for kind, count, at in parts
    )


def rows_of(paos: Paos) -> list[tuple[int, object]]:
    return [(kind, row) for kind, frame in paos.parts for row in frame.rows()]


@given(PARTS, st.integers(0, 25))
def test_a_cut_loses_nothing(parts: list[tuple[int, int, int]], at: int) -> None:
    paos = paos_of(parts)
    head, rest = paos.head(at), paos.rest(at)
    assert head.height == min(at, paos.height) and head.height + rest.height == paos.height
    assert rows_of(head) + rows_of(rest) == rows_of(paos)
    assert paos.intervals.to_list() == [row[0] for _, row in rows_of(paos)]  # type: ignore[index]
    early = paos.between(None, 4)
    assert rows_of(early) == [each for each in rows_of(paos) if each[1][0] < 5]  # type: ignore[index]


@given(PARTS, st.none() | st.integers(-1, 6), st.none() | st.integers(-1, 6))
def test_intervals_between_bounds(parts: list[tuple[int, int, int]], first: int | None, last: int | None) -> None:
    paos = paos_of(parts)
    low, high = -9 if first is None else first, 99 if last is None else last
    kept = [each for each in rows_of(paos) if low <= each[1][0] <= high]  # type: ignore[index]
    assert rows_of(paos.between(first, last)) == kept


@given(PARTS)
def test_a_frame_parts_into_its_intervals(parts: list[tuple[int, int, int]]) -> None:
    frame = pl.concat([PLANS[0].schema.empty(), *(each for kind, each in paos_of(parts).parts if kind == 0)])
    found = by_interval(frame)
    assert len({interval for interval, _ in found}) == len(found) == frame[INTERVAL].n_unique()
    for interval, part in found:
        assert part.rows() == [row for row in frame.rows() if row[0] == interval]


@given(PARTS)
def test_what_is_open_comes_back_from_its_bytes(parts: list[tuple[int, int, int]]) -> None:
    paos = paos_of(parts)
    again = decode_open(encode_open(paos, VERSIONS), VERSIONS)
    kinds = {kind: frame for kind, frame in paos.by_kind().items() if frame.height}
    assert {kind: frame.rows() for kind, frame in again.by_kind().items() if frame.height} == {
        kind: frame.rows() for kind, frame in kinds.items()
    }


@given(PARTS, PARTS)
def test_payloads_of_several_kinds_merge(one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]) -> None:
    packed = [pack(Notes(late=1), paos_of(parts)) for parts in (one, other)]
    payloads = [each for each in packed if each is not None]
    notes, merged = unpack(merge(payloads, VERSIONS), VERSIONS)
    assert notes.late == 2
    both = paos_of(one + other).merged(VERSIONS)
    assert {kind: sorted(frame.rows()) for kind, frame in merged.by_kind().items() if frame.height} == {
        kind: sorted(frame.rows()) for kind, frame in both.by_kind().items() if frame.height
    }


def test_who_does_not_know_a_version_passes_its_paos_on() -> None:
    old = Versions(VERSIONS.all[:1])
    payload = pack(Notes(), paos_of([(0, 2, 1), (2, 3, 6)])) or b""
    merged = merge([merge([payload, payload], old)], old)
    assert {kind: frame.height for kind, frame in unpack(merged, old)[1].by_kind().items()} == {0: 2}
    found = unpack(merge([merged], VERSIONS), VERSIONS)[1].by_kind()
    assert {kind: frame.height for kind, frame in found.items()} == {0: 2, 2: 3}


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x91\x92\x02\xc4\x01x", b"\x91\x92\xff\xc4\x00"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(PaoDecodeError):
        decode_open(data, VERSIONS)


def test_blocks_that_are_too_much_together_are_refused_before_they_are_decompressed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A block of one value repeated is a thousandth of what it decompresses to: thousands of them are a bomb."""
    ((_, frame),) = paos_of([(2, 9, 6)]).parts
    block = encode(frame)
    size = claimed_bytes(block)
    monkeypatch.setattr(paos, "BLOCK_BYTES_MAX", 3 * size)
    fits, bomb = (msgspec.msgpack.encode((Notes(), b"", [(2, block)] * count)) for count in (3, 4))
    assert unpack(fits, VERSIONS)[1].height == 27
    assert unpack(merge([fits, fits], VERSIONS), VERSIONS)[1].height == 9
    monkeypatch.setattr("elf.cbt.codec.decompressed", None)
    for refused in (lambda: unpack(bomb, VERSIONS), lambda: merge([bomb], VERSIONS)):
        with pytest.raises(PaoDecodeError, match=r"4 blocks of \d+ bytes are over the limit"):
            refused()


def test_a_merge_that_nobody_could_read_is_refused_and_not_handed_on() -> None:
    """Or whoever sends many blocks of unknown kinds takes those that it is merged with down with it."""
    block = encode(PLANS[2].schema.empty())
    half = msgspec.msgpack.encode((Notes(), b"", [(kind, block) for kind in range(9, 9 + paos.BLOCKS_MAX // 2 + 1)]))
    assert unpack(merge([half], VERSIONS), VERSIONS)[1].height == 0
    with pytest.raises(PaoDecodeError, match="more than go together"):
        merge([half, half], VERSIONS)


@given(st.permutations([Notes(since={"w1": {2: 5}}), Notes(since={"w1": {2: 5, 3: 9}}), Notes(since={"w2": {3: 8}})]))
def test_what_agents_tell_of_versions_is_kept_whatever_is_merged_first(notes: list[Notes]) -> None:
    """An agent tells it until it was counted once: what is lost here is never told again."""
    assert (notes[0] + notes[1] + notes[2]).since == {"w1": {2: 5, 3: 9}, "w2": {3: 8}}
