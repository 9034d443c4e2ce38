"""Chunks made into events together are the same events, and every line is in one counter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.intake.batches import Gathering, events_of
from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Counters
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.lines import LINE_BYTES_MAX

JSON = make_format("json")
WAYS = ({"a": SqlType.STRING}, {"a": SqlType.BIGINT})
TEXTS = [b'{"ts":1767225600000,"a":"needle"}', b'{"ts":1767225600001,"a":7}', b'{"a":"needle"}', b"needle", b""]
CHUNKS = st.lists(
    st.tuples(st.sampled_from(["x.log", "y.log"]), st.lists(st.sampled_from(TEXTS), min_size=1, max_size=5)), max_size=8
)
WORDS = st.sampled_from([[], [["needle"]], [["needle"], ["7"]]])


@given(CHUNKS, WORDS, st.sampled_from([1, 100, 400, 100_000]))
def test_what_is_gathered_is_what_lines_parsed_at_once_are(
    chunks: list[tuple[str, list[bytes]]], literals: list[list[str]], chunk_bytes: int
) -> None:
    gathering = Gathering(JSON, literals, WAYS, chunk_bytes)
    taken = []
    for log, lines in chunks:
        gathering.add(log, b"".join(line + b"\n" for line in lines))
        if gathering.is_enough:
            taken += gathering.take()
            assert not gathering.is_enough and gathering.take() == []
    taken += gathering.take()
    assert gathering.take() == []
    for log in dict.fromkeys(log for log, _ in chunks):
        text = b"".join(line + b"\n" for name, lines in chunks if name == log for line in lines)
        for number, columns in enumerate(WAYS):
            expected = parse_chunk(JSON, text, columns, literals)
            parts = [part for each in taken if each.log == log for part in each.ways[number]]
            assert events_of(parts).equals(expected.events)
            assert sum((part.counters for part in parts), Counters()) == expected.counters
            assert sorted(reject for part in parts for reject in part.rejects) == sorted(expected.rejects)


def test_few_lines_wait_for_more_and_many_do_not() -> None:
    wanted, other = TEXTS[0] + b"\n", b'{"ts":1767225600001,"a":"thread"}\n'
    gathering = Gathering(JSON, [["needle"]], WAYS[:1], chunk_bytes=40 * len(wanted))
    gathering.add("x.log", wanted * 9 + other * 31)
    assert not gathering.is_enough, "a quarter of a chunk is parsed, and waits still"
    gathering.add("x.log", wanted * 40)
    assert not gathering.is_enough
    gathering.add("x.log", wanted * 21)
    assert gathering.is_enough
    ((log, (parts,)),) = gathering.take()
    events = events_of(parts)
    assert (log, events.height, events["a"].n_chunks()) == ("x.log", 70, 1)


def test_lines_of_many_logs_are_enough_together() -> None:
    wanted = TEXTS[0] + b"\n"
    gathering = Gathering(JSON, [["needle"]], WAYS, chunk_bytes=40 * len(wanted))
    for number in range(5):
        assert not gathering.is_enough
        gathering.add(f"{number}.log", wanted * 7)  # in two ways
    assert gathering.is_enough
    assert [len(way) for log in gathering.take() for way in log.ways] == [1] * 10


def test_however_few_are_wanted_it_ends() -> None:
    other = b"x" * (LINE_BYTES_MAX - 1) + b"\n"
    gathering = Gathering(JSON, [["needle"]], WAYS[:1], chunk_bytes=1 << 20)
    count = 0
    while not gathering.is_enough:
        gathering.add("x.log", other * 8)
        count += 8
    assert count == 64
    ((_, ((parsed,),)),) = gathering.take()
    assert parsed.counters == Counters(read=64, filtered=64)
