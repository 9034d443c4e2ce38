"""Lines in wrappers, cut into parts of two streams, read in any pieces and through restarts: each once, and whole."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.intake.batches import Gathering
from elf.agents.language.types import SqlType
from elf.agents.sources.carried import Carrying
from elf.agents.sources.counters import Counters
from elf.agents.sources.files.tail import FILES_OF_A_LINE, Tail
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.lines import LINE_BYTES_MAX

WANTED = {"path": SqlType.STRING, "status": SqlType.BIGINT, "stream": SqlType.STRING}
TIME = "2026-11-26T09:00:00.123456789Z"
FORMATS = ("cri+combined", "docker+combined", "cri+json", "docker+json", "docker+logfmt", "cri+ltsv")


def inner_line(kind: str, number: int, rng: random.Random) -> str:
    path = f"/{number}" + "x" * rng.choice((0, 0, 40))
    if kind == "combined":
        return f'192.0.2.1 - - [26/Nov/2026:09:00:00 +0000] "GET {path} HTTP/1.1" 200 7 "-" "say \\"é\\""'
    if kind == "json":
        good = json.dumps({"ts": "2026-11-26T09:00:00Z", "path": path, "status": 200, "n": {"é": 1}})
        return rng.choice((good, good, "{}", "nope}")) if number > 2 else good
    if kind == "logfmt":
        return f'ts=2026-11-26T09:00:00Z path="{path}" status=200'
    return f"time:2026-11-26T09:00:00Z\tpath:{path}\tstatus:200"


def written(wrapper: str, stream: str, text: str, is_end: bool) -> str:
    if wrapper == "cri":
        return f"{TIME} {stream} {'F' if is_end else 'P'} {text}\n"
    return json.dumps({"log": text + ("\n" if is_end else ""), "stream": stream, "time": TIME}) + "\n"


def text_of(format: str, rng: random.Random) -> tuple[bytes, Counter[tuple[str, str]]]:
    """Draw a log, and the lines in it with their streams."""
    wrapper, _, kind = format.partition("+")
    queues: dict[str, list[str]] = {"stdout": [], "stderr": []}
    lines = Counter[tuple[str, str]]()
    for number in range(rng.randint(1, 12)):
        stream, line = rng.choice(("stdout", "stdout", "stderr")), inner_line(kind, number, rng)
        lines[stream, line] += 1
        places = sorted(rng.sample(range(1, len(line)), min(len(line) - 1, rng.choice((0, 0, 1, 2)))))
        pieces = [line[begin:end] for begin, end in zip([0, *places], [*places, len(line)], strict=True)]
        queues[stream] += [written(wrapper, stream, each, False) for each in pieces[:-1]]
        queues[stream].append(written(wrapper, stream, pieces[-1], True))
    text = ""
    while any(queues.values()):
        text += rng.choice([queue for queue in queues.values() if queue]).pop(0)
        text += "nonsense\n" if rng.random() < 0.05 else ""
    return text.encode(), lines


@given(st.sampled_from(FORMATS), st.randoms(use_true_random=False))
def test_a_tail_gives_each_line_once_wherever_it_is_left(name: str, rng: random.Random) -> None:
    format = make_format(name)
    text, lines = text_of(name, rng)
    # As each line reads that stands for itself.
    inner = make_format(name.partition("+")[2])
    expected = Counter[tuple[str, str]]()
    for (stream, line), count in lines.items():
        found = parse_chunk(inner, line.encode(), {"path": SqlType.STRING}).events["path"].to_list()
        expected.update({(stream, path): count for path in found})
    counters, seen = Counters(), Counter[tuple[str, str]]()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "a.log")
        tail = Tail(str(log), rotate_wait_ms=0, carrier=format.carrier)
        places = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, 8)))
        for begin, end in zip([0, *places], [*places, len(text)], strict=True):
            with log.open("ab") as file:
                file.write(text[begin:end])
            while chunk := tail.read(rng.choice((1, 200, 1 << 16))):
                parsed = parse_chunk(format, chunk.data, WANTED, carried=chunk.carried)
                assert parsed.counters.balanced
                counters += parsed.counters
                seen.update((row[3], row[1]) for row in parsed.events.rows())
            if rng.random() < 0.4:
                positions = tail.positions()
                tail.close()
                tail = Tail(str(log), rotate_wait_ms=0, carrier=format.carrier)
                tail.restore(positions)
        tail.close()
    assert seen == expected
    assert counters.read == text.count(b"\n") and counters.balanced


@given(st.sampled_from(FORMATS), st.randoms(use_true_random=False))
def test_a_line_is_whole_wherever_its_log_is_renamed_or_truncated(name: str, rng: random.Random) -> None:
    """Parts may lie in two files, or more, and the agent may end in between."""
    format = make_format(name)
    text, expected = text_of(name, rng)
    inner = make_format(name.partition("+")[2])
    paths = {
        path
        for _, line in expected
        for path in parse_chunk(inner, line.encode(), {"path": SqlType.STRING}).events["path"].to_list()
    }
    counters, seen = Counters(), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "a.log")
        tail = Tail(str(log), rotate_wait_ms=rng.choice((0, 10_000)), carrier=format.carrier)

        def read() -> None:
            nonlocal counters
            while chunk := tail.read(rng.choice((200, 1 << 16))):
                gathering = Gathering(format, [], [WANTED], 1 << 20)
                gathering.add(chunk.stream, chunk.data, chunk.carried)
                for part in gathering.take()[0].ways[0]:
                    counters += part.counters
                    seen.update(row[1] for row in part.events.rows())

        log.write_text("")
        tail.look()
        renamed = 0
        for number, line in enumerate(text.splitlines(keepends=True)):
            with log.open("ab") as file:
                file.write(line)
            if rng.random() < 0.6:
                read()
            if rng.random() < 0.4:
                positions = tail.positions()
                tail.close()
                tail = Tail(str(log), rotate_wait_ms=rng.choice((0, 10_000)), carrier=format.carrier)
                tail.restore(positions)
                tail.look()
            if rng.random() < 0.3:
                if rng.random() < 0.7 and renamed < FILES_OF_A_LINE - 1:
                    renamed += 1
                    log.rename(Path(folder, f"a.log-{20261126 + number}"))
                    log.write_text("")
                    tail.look()
                else:
                    read()
                    log.write_text("")
                    read()  # or nobody could tell
        for _ in range(3):
            read()
        tail.close()
    assert set(seen) == paths and counters.balanced
    assert counters.read == text.count(b"\n")


@given(st.sampled_from(FORMATS), st.randoms(use_true_random=False))
def test_damaged_lines_are_the_same_in_any_chunks(name: str, rng: random.Random) -> None:
    format = make_format(name)
    lines = text_of(name, rng)[0].splitlines(keepends=True)
    odd = (b"\xff", b"\\ud83d", b"\0", b"\r", b"\xef\xbb\xbf", b"null", b'"', b" P ", b"5", b" stdout ", b"\\n")
    for number, line in enumerate(lines):
        if rng.random() < 0.3:
            place = rng.randrange(len(line))
            lines[number] = (
                line[:place] + rng.choice(odd) + line[place + rng.choice((0, 0, 1, 9)) :].rstrip(b"\n") + b"\n"
            )
        elif rng.random() < 0.1:
            lines[number] = b'{"log":%s,"stream":"stdout","time":"2026-11-26T09:00:00Z"}\n' % rng.choice(
                (b"5", b"null", b"{}")
            )

    def read(chunks: list[bytes]) -> tuple[Counters, Counter[tuple[str, ...]]]:
        carrying, gathering = Carrying(format.carrier), Gathering(format, [], [WANTED], 1 << 20)
        for chunk in chunks:
            gathering.add("a", chunk, carrying.before(chunk))
        if left := carrying.left():
            gathering.add("a", b"", left)
        parts = [part for log in gathering.take() for part in log.ways[0]]
        counters = sum((part.counters for part in parts), Counters())
        return counters, Counter(row for part in parts for row in part.events.rows())

    whole, chunks, left = read([b"".join(lines)]), list[bytes](), list(lines)
    while left:
        count = rng.randint(1, len(left))
        chunks.append(b"".join(left[:count]))
        del left[:count]
    assert read(chunks) == whole
    assert whole[0].balanced and whole[0].read == len(lines)


@given(st.sampled_from(FORMATS), st.randoms(use_true_random=False))
def test_what_waits_at_the_end_of_a_file_is_said(name: str, rng: random.Random) -> None:
    """Rotated away, and others behind it, too: parts whose end never comes are rejected, of Docker they are a line."""
    format = make_format(name)
    wrapper, _, kind = name.partition("+")
    lines = [written(wrapper, "stdout", inner_line(kind, 1, rng), True)]
    rest = inner_line(kind, 2, random.Random(1))
    lines += [written(wrapper, "stderr", rest[:9], False), written(wrapper, "stderr", rest[9:], False)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "a.log")
        log.write_text("".join(lines))
        tail = Tail(str(log), rotate_wait_ms=0, carrier=format.carrier)
        gathering = Gathering(format, [], [WANTED], 1 << 20)
        while chunk := tail.read(1 << 16):
            gathering.add(chunk.stream, chunk.data, chunk.carried)
        positions, more = tail.positions(), 0
        log.rename(Path(folder, "a.log.1"))
        for number in range(rng.choice((0, FILES_OF_A_LINE))):
            if number:
                log.rename(Path(folder, f"a.log-{20261126 + number}"))
            log.write_text(lines[0])
            if rng.random() < 0.5:
                tail.close()
                tail = Tail(str(log), rotate_wait_ms=0, carrier=format.carrier)
                tail.restore(positions)
            for _ in range(3):
                while chunk := tail.read(1 << 16):
                    gathering.add(chunk.stream, chunk.data, chunk.carried)
            positions = tail.positions()
            more += 1
        tail.look()
        while chunk := tail.read(1 << 16):
            gathering.add(chunk.stream, chunk.data, chunk.carried)
        tail.close()
    parts = [part for log_parts in gathering.take() for part in log_parts.ways[0]]
    counters = sum((part.counters for part in parts), Counters())
    assert counters.read == 3 + more and counters.balanced
    streams = [row[3] for part in parts for row in part.events.rows()]
    if wrapper == "docker":
        assert counters.parts == 1 and "stderr" in streams
    else:
        assert "stderr" not in streams and [why for part in parts for _, why in part.rejects][-1] == "part"


@pytest.mark.parametrize("name", ["cri+combined", "docker+combined"])
def test_parts_are_joined_up_to_the_length_of_a_line(name: str) -> None:
    format, wrapper = make_format(name), name.partition("+")[0]
    piece = "x" * (LINE_BYTES_MAX // 4)
    lines = [written(wrapper, "stdout", piece, False).encode() for _ in range(11)]
    good = inner_line("combined", 1, random.Random(1))
    lines += [written(wrapper, "stdout", "", True).encode(), written(wrapper, "stdout", good, True).encode()]
    whole = parse_chunk(format, b"".join(lines), WANTED)
    assert whole.counters.balanced and whole.counters.read == len(lines) and whole.events.height == 1
    carrying, counters = Carrying(format.carrier), Counters()
    for line in lines:
        carried = carrying.before(line)
        assert sum(map(len, carried)) < 2 * LINE_BYTES_MAX
        counters += parse_chunk(format, line, WANTED, carried=carried).counters
    assert counters == whole.counters


@given(st.sampled_from(FORMATS), st.booleans(), st.randoms(use_true_random=False))
def test_what_waits_when_a_file_is_truncated_is_counted(name: str, is_copied: bool, rng: random.Random) -> None:
    """They go on in a copy, if there is one, and then in what is written behind the truncation."""
    format = make_format(name)
    text, _ = text_of(name, rng)
    lines = text.splitlines(keepends=True)
    cut = rng.randint(1, len(lines))
    counters = Counters()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "a.log")
        log.write_bytes(b"".join(lines[:cut]))
        tail = Tail(str(log), rotate_wait_ms=0, carrier=format.carrier)
        gathering = Gathering(format, [], [WANTED], 1 << 20)

        def read() -> None:
            while chunk := tail.read(1 << 16):
                gathering.add(chunk.stream, chunk.data, chunk.carried)

        read()
        if is_copied:
            with log.open("ab") as file:
                file.write(b"".join(lines[cut:]))
            Path(folder, "a.log.1").write_bytes(log.read_bytes())
        ends = (written(name.partition("+")[0], stream, "x", True) for stream in ("stdout", "stderr"))
        log.write_text("".join(ends))
        for _ in range(3):
            read()
        tail.close()
    parts = [part for log_parts in gathering.take() for part in log_parts.ways[0]]
    counters = sum((part.counters for part in parts), Counters())
    read_before = len(lines) if is_copied else cut
    # What was truncated without being read is no line, and told as a gap.
    assert counters.balanced and counters.read == read_before + 2
