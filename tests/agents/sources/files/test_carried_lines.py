"""What lines behind a place need outlives restarts and truncations, whatever bytes there are in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from elf.agents.sources.carried import Carrier
from elf.agents.sources.files.carried_lines import CarriedLines
from elf.agents.sources.files.readers import open_plain
from elf.agents.sources.files.rotation import Position
from elf.agents.sources.files.tail import Tail
from elf.agents.sources.format import make_format

POSITION = Position(path="a.log", device=1, inode=2, head="", head_bytes=0, offset=0)
AROUND = "2026-11-26T09:00:00Z"


def carrier_of(name: str) -> Carrier:
    carrier = make_format(name).carrier
    assert carrier is not None
    return carrier


def begun(carrier: Carrier, text: bytes) -> CarriedLines:
    lines = CarriedLines(carrier, None)
    lines.carry([], text, 0)
    return lines


def restarted(carrier: Carrier, lines: CarriedLines, path: Path) -> CarriedLines:
    """Return the lines as the next run has them, which reads those of the file again."""
    again = CarriedLines(carrier, replace(POSITION, carried=lines.places, header=lines.stored))
    reader = open_plain(str(path))
    again.read(reader, path.stat().st_size)
    reader.close()
    return again


@pytest.mark.parametrize("text", ["a", "a\rb", "é ", "", "\x0b\x1c"])
def test_parts_that_were_truncated_away_are_stored(tmp_path: Path, text: str) -> None:
    carrier, path = carrier_of("cri+json"), tmp_path / "a.log"
    parts = f"{AROUND} stdout P {text}\n{AROUND} stderr P 1{text}\n{AROUND} stdout P 2\n".encode()
    lines = begun(carrier, parts)
    lines.truncated(is_whole=True)
    more = f"{AROUND} stderr P 3\n".encode()
    path.write_bytes(more)
    lines = restarted(carrier, lines, path)
    assert b"".join(lines.carry([], more, 0)) == parts
    lines = restarted(carrier, lines, path)
    assert b"".join(lines.carry([], b"\n", len(more))) == parts + more
    assert not lines.take_owed(is_over=False)
    assert b"".join(lines.take_owed(is_over=True)) == parts + more and not lines.take_owed(is_over=True)


@pytest.mark.parametrize(("is_whole", "length"), [(False, 1), (True, 20_000)])
def test_parts_that_others_may_have_followed_or_that_are_too_many_to_be_stored_are_owed(
    is_whole: bool, length: int
) -> None:
    part = f"{AROUND} stdout P {'x' * length}\n".encode()
    lines = begun(carrier_of("cri+json"), part)
    lines.truncated(is_whole=is_whole)
    assert lines.places == () and lines.take_owed(is_over=False) == (part,)


def test_a_header_stays_and_a_row_that_has_begun_does_not(tmp_path: Path) -> None:
    carrier, path = carrier_of("csv"), tmp_path / "a.log"
    header, row = b"ts,note\n", b'2026-11-26T09:00:00Z,"a\n'
    lines = begun(carrier, header + row)
    path.write_bytes(header + row)
    assert restarted(carrier, lines, path).carry([], b"\n", 0) == (header, row)
    lines = restarted(carrier, lines, path)
    lines.truncated(is_whole=True)
    assert lines.take_owed(is_over=False) == (header, row)
    path.write_bytes(row)
    lines.carry([], row, 0)
    assert restarted(carrier, lines, path).carry([], b"\n", 0) == (header, row)


def test_what_has_begun_in_an_older_file_ends_in_a_newer_one_and_the_rest_stays_where_it_is() -> None:
    carrier = carrier_of("cri+json")
    out, err = (f"{AROUND} {stream} P x\n".encode() for stream in ("stdout", "stderr"))
    older, newer = begun(carrier, out + err), CarriedLines(carrier, None)
    assert newer.carry([older], f"{AROUND} stdout F y\n".encode(), 0) == (out, err)
    assert older.places == (len(out),) and newer.places == ()
    assert newer.carry([older], err, 30) == (err,)
    assert older.places == (len(out),) and newer.places == (30,)
    newer.carry([older], f"{AROUND} stderr F y\n".encode(), 60)
    assert older.places == newer.places == ()


def test_an_empty_line_of_a_value_outlives_a_restart(tmp_path: Path) -> None:
    log, carrier = tmp_path / "a.log", make_format("csv").carrier
    log.write_bytes(b'ts,note\n2026-11-26T09:00:00Z,"a\n\n')
    tail = Tail(str(log), rotate_wait_ms=0, carrier=carrier)
    assert tail.read(1 << 16)
    positions = tail.positions()
    tail.close()
    with log.open("ab") as file:
        file.write(b'b"\n')
    again = Tail(str(log), rotate_wait_ms=0, carrier=carrier)
    again.restore(positions)
    chunk = again.read(1 << 16)
    again.close()
    assert chunk is not None
    assert chunk.carried == (b"ts,note\n", b'2026-11-26T09:00:00Z,"a\n', b"\n")
