"""Logs whose headers change, read in any pieces, through restarts and rotation: as if each file were read at once."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.intake.batches import Gathering
from elf.agents.language.types import SqlType
from elf.agents.sources.carried import Carrying
from elf.agents.sources.counters import Counters
from elf.agents.sources.files.tail import Tail
from elf.agents.sources.format import Format, make_format, parse_chunk
from elf.agents.sources.kept import joined
from tests.agents.sources.headed_texts import KINDS, Kind, text_of

WANTED = {
    "status": SqlType.BIGINT,
    "path": SqlType.STRING,
    "user_agent": SqlType.STRING,
    "note": SqlType.STRING,
    "n": SqlType.BIGINT,
}


class Read:
    """What was read, and that it is balanced all the time."""

    def __init__(self) -> None:
        self.events = Counter[tuple[Any, ...]]()
        self.counters = Counters()
        self.mistyped = Counter[str]()

    def take(self, format: Format, chunk: bytes, carried: tuple[bytes, ...]) -> None:
        parsed = parse_chunk(format, chunk, WANTED, carried=carried)
        assert parsed.counters.balanced
        self.counters += parsed.counters
        # By name: a chunk has the texts of misfits beside their columns only where there are some.
        rows = parsed.events.rows(named=True)
        self.events.update(tuple(sorted((k, v) for k, v in row.items() if v is not None)) for row in rows)
        self.mistyped.update(parsed.oddities.mistyped)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Read) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def at_once(format: Format, *texts: bytes) -> Read:
    read = Read()
    for text in texts:
        read.take(format, text, ())
    assert read.counters.read == sum(text.count(b"\n") for text in texts)
    return read


def pieces(text: bytes, rng: random.Random) -> list[bytes]:
    """Cut a text at any byte."""
    places = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, 6)))
    return [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True)]


@given(st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_chunks_are_as_the_whole(kind: Kind, rng: random.Random) -> None:
    format, text = make_format(kind.format), text_of(kind, rng)
    read, carrying, lines = Read(), Carrying(format.carrier), text.splitlines(keepends=True)
    while lines:
        count = rng.randint(1, len(lines))
        chunk, lines = b"".join(lines[:count]), lines[count:]
        read.take(format, chunk, carrying.before(chunk))
    assert read == at_once(format, text)


@given(st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_what_is_kept_is_parsed_together_or_in_halves(kind: Kind, rng: random.Random) -> None:
    format, text = make_format(kind.format), text_of(kind, rng)
    carrying, parts = Carrying(format.carrier), []
    for line in text.splitlines(keepends=True):
        parts.append(format.keep(line, [], carrying.before(line)))
    kept = joined(parts)
    whole = format.parse(kept, WANTED)
    assert whole.events.equals(parse_chunk(format, text, WANTED).events)
    if kept.count > 1:
        first, second = (format.parse(half, WANTED) for half in kept.halves())
        assert first.counters + second.counters == whole.counters
        together = pl.concat([first.events, second.events], how="diagonal")
        assert together.select(whole.events.columns).equals(whole.events)


@given(st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_a_tail_reads_on_wherever_it_is_left(kind: Kind, rng: random.Random) -> None:
    """Written at any byte, restarted at any time, rotated by name or truncated in place with other headers behind."""
    format = make_format(kind.format)
    texts = [text_of(kind, rng) for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        log, read = Path(folder, "a.log"), Read()
        tail = Tail(str(log), rotate_wait_ms=0, carrier=format.carrier)

        def drain() -> None:
            while chunk := tail.read(rng.choice((1, 50, 400, 1 << 16))):
                read.take(format, chunk.data, chunk.carried)

        for number, text in enumerate(texts):
            for piece in pieces(text, rng):
                with log.open("ab") as file:
                    file.write(piece)
                if rng.random() < 0.5:
                    drain()
                elif rng.random() < 0.5 and (chunk := tail.read(50)):
                    read.take(format, chunk.data, chunk.carried)
                if rng.random() < 0.4:
                    positions = tail.positions()
                    tail.close()
                    tail = Tail(str(log), rotate_wait_ms=0, carrier=format.carrier)
                    tail.restore(positions)
            drain()
            if number + 1 < len(texts):
                rotated = Path(folder, f"a.log.{len(texts) - number}")
                if rng.random() < 0.5:
                    log.rename(rotated)
                else:
                    rotated.write_bytes(log.read_bytes())
                    log.write_bytes(b"")
                    drain()
        drain()
        tail.close()
    assert read == at_once(format, *texts)


@given(st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_a_header_outlives_the_truncation_of_its_file(kind: Kind, rng: random.Random) -> None:
    """Who writes a log need not know that it was copied away and truncated, and writes rows without a header."""
    format, names = make_format(kind.format), kind.header(rng)
    header = kind.written(names) + "\n"
    rows = ["".join(kind.row(names, rng) + "\n" for _ in range(rng.randint(1, 9))) for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        log, read = Path(folder, "a.log"), Read()
        log.write_text(header)
        tail = Tail(str(log), rotate_wait_ms=0, carrier=format.carrier)
        for number, text in enumerate(rows):
            with log.open("a") as file:
                file.write(text)
            while chunk := tail.read(rng.choice((50, 1 << 16))):
                read.take(format, chunk.data, chunk.carried)
            if rng.random() < 0.5:
                positions = tail.positions()
                tail.close()
                tail = Tail(str(log), rotate_wait_ms=0, carrier=format.carrier)
                tail.restore(positions)
            if rng.random() < 0.5:
                Path(folder, f"a.log.{9 - number}").write_bytes(log.read_bytes())
            log.write_bytes(b"")
            if rng.random() < 0.5:
                assert tail.read(1 << 16) is None
        tail.close()
    assert read == at_once(format, (header + "".join(rows)).encode())


@given(st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_a_tail_that_begins_in_the_middle_reads_the_header_of_the_front(kind: Kind, rng: random.Random) -> None:
    format = make_format(kind.format)
    lines = text_of(kind, rng, rows=20).splitlines(keepends=True)
    passed = rng.randint(0, len(lines))
    expected, carrying = Read(), Carrying(format.carrier)
    carrying.before(b"".join(lines[:passed]))
    rest = b"".join(lines[passed:])
    expected.take(format, rest, carrying.before(rest))
    with tempfile.TemporaryDirectory() as folder:
        log, read = Path(folder, "a.log"), Read()
        log.write_bytes(b"".join(lines[:passed]))
        tail = Tail(str(log), start="end", carrier=format.carrier)
        assert tail.read(1 << 16) is None
        with log.open("ab") as file:
            file.write(rest)
        while chunk := tail.read(100):
            read.take(format, chunk.data, chunk.carried)
        tail.close()
    assert read == expected


@given(st.sampled_from([kind for kind in KINDS if kind.format == "csv"]), st.randoms(use_true_random=False))
def test_torn_rows_are_the_same_in_any_chunks(kind: Kind, rng: random.Random) -> None:
    format = make_format("csv")
    lines = text_of(kind, rng).splitlines(keepends=True)
    for number in range(1, len(lines)):
        if rng.random() < 0.2:
            place = rng.randrange(len(lines[number]))
            odd = rng.choice(
                (b'"', b"\n", b'""', b"\xff", b"\0", b"\r", b"\xef\xbb\xbf", b'"\n', b"x" * (1 << 20), b"")
            )
            lines[number] = lines[number][:place] + odd + lines[number][place + rng.choice((0, 1, 9)) :]
    lines = b"".join(lines).rstrip(b"\n").split(b"\n")
    chunks, left = list[bytes](), [line + b"\n" for line in lines]
    whole = b"".join(left)
    while left:
        count = rng.randint(1, len(left))
        chunks.append(b"".join(left[:count]))
        del left[:count]

    def read(chunks: list[bytes]) -> tuple[Counters, Counter[Any]]:
        carrying, gathering = Carrying(format.carrier), Gathering(format, [], [WANTED], 1 << 20)
        for chunk in chunks:
            gathering.add("a", chunk, carrying.before(chunk))
        if waiting := carrying.left():
            gathering.add("a", b"", waiting)
        parts = [part for log in gathering.take() for part in log.ways[0]]
        rows = [row for part in parts for row in part.events.select("ts", *WANTED).rows()]
        return sum((part.counters for part in parts), Counters()), Counter(rows)

    found = read([whole])
    assert read(chunks) == found
    assert found[0].balanced and found[0].read == len(lines)
