"""The journal's export: entries are what was written, wherever their text is cut, and nothing in a value is one."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType
from elf.agents.sources.carried import Carrying
from elf.agents.sources.counters import Counters
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.lines import LINE_BYTES_MAX
from elf.agents.sources.recognition import fitting, recognise
from elf.agents.sources.times.zones import UTC
from elf.agents.sources.wrapped.exported import ENTRY_LINES_MAX

COLUMNS = {"message": SqlType.STRING, "syslog_host": SqlType.STRING, "unit": SqlType.STRING}
COMBINED = '192.0.2.1 - - [26/Nov/2026:09:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "c"'
FORGED = b"a\n\n__CURSOR=x\n__REALTIME_TIMESTAMP=1795683600000000\nMESSAGE=forged\n\nMESSAGE\n"
PIECES = st.sampled_from([b"a", b"=", b'"', b"\\", b"\n", b"\n\n", b"\0", b"\t", b"\r", b"\xff", "é".encode(), FORGED])
VALUES = st.lists(PIECES, max_size=6).map(b"".join)
#: A message is text that is there.
MESSAGES = VALUES.map(b"m".__add__).map(lambda text: text.rstrip(b"\r\n") or b"m")


def field(name: str, value: bytes) -> bytes:
    """Write a field as systemd does."""
    try:
        is_text = not any(byte < 32 and byte != 9 for byte in value) and value.decode() is not None
    except UnicodeDecodeError:
        is_text = False
    if is_text:
        return name.encode() + b"=" + value + b"\n"
    return name.encode() + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"


def entry(message: bytes, *others: tuple[str, bytes]) -> bytes:
    """Write an entry."""
    fields = [("__CURSOR", b"s=1;i=2"), ("__REALTIME_TIMESTAMP", b"1795683600123456"), *others, ("MESSAGE", message)]
    return b"".join(itertools.starmap(field, fields)) + b"\n"


def parsed(format: str, chunks: list[bytes]) -> tuple[list[dict[str, object]], Counters]:
    """Parse chunks that follow each other, and what is left behind them."""
    reader = make_format(format, zone=UTC)
    carrying, rows, counters = Carrying(reader.carrier), list[dict[str, object]](), Counters()
    parts = [parse_chunk(reader, chunk, COLUMNS, carried=carrying.before(chunk)) for chunk in chunks]
    if left := carrying.left():
        parts.append(parse_chunk(reader, b"", COLUMNS, carried=left))
    for part in parts:
        rows += part.events.to_dicts()
        counters += part.counters
    ends = (counters.parsed, counters.rejected, counters.filtered, counters.headers, counters.parts)
    assert counters.read == sum(ends) and counters.read == b"".join(chunks).count(b"\n")
    return rows, counters


def cut(text: bytes, draw: st.DataObject) -> list[bytes]:
    """Cut a text into chunks of whole lines."""
    lines = text.splitlines(keepends=True) if b"\r" not in text else [each + b"\n" for each in text.split(b"\n")[:-1]]
    places = sorted(draw.draw(st.sets(st.integers(0, len(lines)), max_size=4)) | {0, len(lines)})
    chunks = [b"".join(lines[begin:end]) for begin, end in itertools.pairwise(places)]
    return [each for each in chunks if each]


@given(st.lists(st.tuples(MESSAGES, VALUES, st.sampled_from([b"", b"\n"])), min_size=1, max_size=5), st.data())
def test_entries_are_what_was_written_wherever_they_are_cut(
    written: list[tuple[bytes, bytes, bytes]], draw: st.DataObject
) -> None:
    text = b"".join(entry(message, ("_HOSTNAME", host), ("OTHER", host)) + gap for message, host, gap in written)
    rows, counters = parsed("journal-export", cut(text, draw))
    assert [row["message"] for row in rows] == [message.decode(errors="replace") for message, _, _ in written]
    assert [row["syslog_host"] for row in rows] == [host.decode(errors="replace") for _, host, _ in written]
    assert counters.parsed == len(written) and counters.rejected == 0


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.data())
def test_whatever_bytes_there_are_each_line_counts_once(messages: list[bytes], draw: st.DataObject) -> None:
    text = bytearray(b"".join(map(entry, messages)))
    for _ in range(draw.draw(st.integers(1, 4))):
        place = draw.draw(st.integers(0, len(text)))
        text[place : place + draw.draw(st.integers(0, 9))] = draw.draw(PIECES)
    whole = bytes(text) + b"\n"
    rows, counters = parsed("journal-export", cut(whole, draw))
    assert len(rows) == counters.parsed
    assert parsed("journal-export", [whole])[1].read == counters.read


def test_the_last_entry_needs_no_empty_line_but_all_of_its_value() -> None:
    assert parsed("journal-export", [entry(b"x")[:-1]])[1].parsed == 1
    rows, counters = parsed("journal-export", [entry(b"x") + entry(b"y\nz")[:-4]])
    assert [row["message"] for row in rows] == ["x"] and counters.rejected == 1


def test_a_field_that_is_none_makes_no_entry() -> None:
    for wrong in (b"hello\n", b"lower=1\n", b"   \n", b"NAME\nno length here\n", b"=x\n", b'"A":"b",\n'):
        rows, counters = parsed("journal-export", [entry(b"a") + wrong + entry(b"b") + entry(b"c")])
        assert [row["message"] for row in rows] == ["a", "c"] and counters.rejected == 1


def test_what_never_ends_does_not_wait_for_ever() -> None:
    long = b"A=x\n" * (ENTRY_LINES_MAX + 1)
    huge = b"A\n" + (LINE_BYTES_MAX + 1).to_bytes(8, "little") + b"x\n"
    reader = make_format("journal-export", zone=UTC)
    for text in (long, huge + b"\n", b"A=" + b"x" * LINE_BYTES_MAX + b"\n"):
        carrying = Carrying(reader.carrier)
        carrying.before(text)
        assert not carrying.left()
        rows, counters = parsed("journal-export", [text, b"\n" + entry(b"after")])
        assert [row["message"] for row in rows] == ["after"] and counters.rejected >= 1


def test_texts_are_lines_of_another_format() -> None:
    text = entry(COMBINED.encode(), ("_HOSTNAME", b"web1")) + entry(b"a\nb") + entry(b"other")
    reader = make_format("journal-export+combined", zone=UTC)
    found = parse_chunk(reader, text, {"remote_addr": SqlType.STRING, "syslog_host": SqlType.STRING})
    assert found.events.drop("ts").rows() == [("192.0.2.1", "web1")]
    assert sorted(why.split("@")[0] for _, why in found.rejects) == ["format:remote_addr", "newline"]
    assert recognise(entry(COMBINED.encode()) * 9).format is not None
    assert recognise(entry(COMBINED.encode()) * 9).guesses[0].names == ("journal-export+combined",)
    assert recognise(entry(b"started") * 9).guesses[0].names == ("journal-export",)
    assert fitting(reader, text * 3 + entry(b"x")[:-1]).fits == 3
    with pytest.raises(ConfigError, match="do not go together"):
        make_format(["journal-export", "combined"])
