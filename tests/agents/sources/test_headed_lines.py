"""Formats whose columns are named by header lines."""

from __future__ import annotations

import pytest

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType
from elf.agents.sources.carried import Carrying
from elf.agents.sources.counters import Counters
from elf.agents.sources.format import Format, make_format, parse_chunk
from elf.agents.sources.headed_lines import HeadedLines
from elf.agents.sources.lines import LINE_BYTES_MAX
from tests.agents.sources.format_files import formats, rows

NOW_MS = 1_795_683_600_000
#: Of headers that are read.
HEADER_BYTES_MAX = 64 << 10


def made(name: str) -> Format:
    return make_format(name, now_ms=lambda: NOW_MS)


@pytest.mark.parametrize("name", ["w3c", "cloudfront", "gcs", "csv"])
def test_samples_become_what_they_have_to(name: str) -> None:
    format, samples = made(name), formats()[name]["samples"]
    columns = format.columns or dict.fromkeys(("status", "path", "note"), SqlType.STRING)
    parsed = parse_chunk(format, "".join(s["line"] + "\n" for s in samples).encode(), columns)
    expected = [sample["expect"] for sample in samples if sample["expect"]]
    assert parsed.counters == Counters(len(samples), len(expected), headers=len(samples) - len(expected))
    for row, right in zip(rows(parsed), expected, strict=True):
        assert row == {name: right.get(name) for name in row}


@pytest.mark.parametrize("name", ["w3c", "cloudfront", "gcs"])
def test_what_lacks_its_header_is_rejected_with_the_reason(name: str) -> None:
    lines = [sample["line"] for sample in formats()[name]["samples"] if sample["expect"]]
    parsed = parse_chunk(made(name), "".join(line + "\n" for line in lines).encode(), {})
    assert parsed.counters == Counters(3, rejected=3)
    assert parsed.rejects == tuple((line.encode(), "no_header") for line in lines)


@pytest.mark.parametrize(
    ("name", "header", "row"),
    [
        ("w3c", "#Fields: c-ip date sc-status time", "192.0.2.1 2026-11-26 200 09:00:00"),
        ("w3c", "#Fields:", ""),
        ("cloudfront", "#Fields: date time c-ip", "2026-11-26\t09:00:00\t192.0.2.1"),
    ],
)
def test_rows_below_a_header_without_what_an_event_needs_are_rejected(name: str, header: str, row: str) -> None:
    parsed = parse_chunk(made(name), f"{header}\n{row}\n".encode(), {})
    assert parsed.counters == Counters(2, rejected=1, headers=1)
    assert parsed.rejects == ((row.encode(), "header"),)


def test_fields_have_kinds_so_that_no_value_moves_into_another_column() -> None:
    header = "#Fields: date time c-ip cs-method cs-uri-stem sc-status time-taken cs(User-Agent)\n"
    good = '2026-11-26 09:00:00 192.0.2.1 GET /a 200 15 "quoted\n'
    for old, new in (
        (" GET", " "),
        ("192.0.2.1", "x"),
        (" 200", " 20x"),
        (" 15 ", " 1.5 "),
        ("26 09", "26  09"),
        ("/a", "a"),
    ):
        lines = header + good + good.replace(old, new)
        assert parse_chunk(made("w3c"), lines.encode(), {}).counters == Counters(3, 1, 1, headers=1), new


def test_rows_that_a_job_does_not_want_are_skipped_and_headers_stay_counted() -> None:
    text = b'ts,path\n1795683600,/a\n1795683600,"/b"\nts,n,path\n1795683600,1,/a\n1795683600,1,"/""a"\n'
    columns = {"path": SqlType.STRING}
    parsed = parse_chunk(make_format("csv"), text, columns, [["/a"]])
    # A quote may hide in the last one.
    assert parsed.counters == Counters(6, 3, filtered=1, headers=2)
    assert parsed.events["path"].to_list() == ["/a", "/a", '/"a']


def test_rows_of_csv_have_as_many_values_as_their_header() -> None:
    text = b'ts,a,b\n1795683600,1\n1795683600,1,2,3\n1795683600,"1"x,2\n1795683600,1,"2\n1795683600,1"2,3\n'
    assert parse_chunk(make_format("csv"), text, {}).counters == Counters(6, rejected=5, headers=1)


@pytest.mark.parametrize(
    ("name", "header", "row"),
    [
        ("csv", "ts\ta", "1795683600\ta b"),
        ("cloudfront", "#Fields: date time x-edge-location", "2026-11-26\t09:00:00\ta b"),
        ("w3c", "#Fields: date time cs(User-Agent)", "2026-11-26 09:00:00 a"),
    ],
)
def test_the_last_value_ends_where_others_do(name: str, header: str, row: str) -> None:
    more = row + row[-2 if name == "w3c" else row.rindex("\t") :]
    parsed = parse_chunk(made(name), f"{header}\n{row}\n{more}\n".encode(), {})
    assert parsed.counters == Counters(3, 1, 1, headers=1)


def test_a_name_that_comes_twice_is_that_of_the_last_value() -> None:
    text = b"ts,a,ts,a\n1,2,1795683600,3\n"
    assert parse_chunk(make_format("csv"), text, {"a": SqlType.BIGINT}).events.to_dicts()[0]["a"] == 3


def test_values_that_do_not_fit_are_null_and_counted_but_nothing_is_no_value() -> None:
    text = b"ts,n\n1795683600,1\n1795683601,x\n1795683602,\n1795683603,-\n1795683604,2.0\n"
    parsed = parse_chunk(make_format("csv"), text, {"n": SqlType.BIGINT})
    assert parsed.events["n"].to_list() == [1, None, None, None, 2]
    assert parsed.oddities.mistyped == {"n": 1} and parsed.mistyped["n"].tolist() == [1795683601000]


def test_headers_stand_alone() -> None:
    for spec in (["csv", "combined"], "cri+w3c", "docker+csv"):
        with pytest.raises(ConfigError, match=r"go together|unknown|stand"):
            make_format(spec)


def in_chunks(name: str, *chunks: bytes) -> tuple[Counters, list[str | None]]:
    """Read chunks of one log; return what was counted, and the values of the column `a`."""
    format = make_format(name)
    carrying, counters, found = Carrying(format.carrier), Counters(), list[str | None]()
    for chunk in chunks:
        parsed = parse_chunk(format, chunk, {"a": SqlType.STRING}, carried=carrying.before(chunk))
        counters += parsed.counters
        found += parsed.events["a"].to_list()
    return counters, found


def test_a_header_with_a_byte_order_mark_behind_another_one_is_one() -> None:
    lines = (b"ts,a\n", b"1795683600,1\n", b"\xef\xbb\xbfts,b,a\n", b"1795683600,2,3\n")
    wanted = Counters(4, 2, headers=2), ["1", "3"]
    assert in_chunks("csv", b"".join(lines)) == wanted
    assert in_chunks("csv", *lines) == wanted


@pytest.mark.parametrize(
    "second",
    [b"time,a\n", b'"x","@timestamp","a"\n', b"x\ttime_local\ta\n", b"\xef\xbb\xbfdate,a\r\n", b"x\xff,d\0ate,a\n"],
)
def test_a_second_header_may_have_another_name_for_the_time(second: bytes) -> None:
    row = b"7,1795683600,2\n" if b"x" in second[:2] else b"1795683600,2\n"
    lines = (b"ts,a\n", b"1795683600,1\n", second, row.replace(b",", b"\t") if b"\t" in second else row)
    wanted = Counters(4, 2, headers=2), ["1", "2"]
    assert in_chunks("csv", b"".join(lines)) == wanted
    assert in_chunks("csv", *lines) == wanted


@pytest.mark.parametrize("torn", [b"203.0.113.9,ts,x\n", b",203.0.113.77,ts\n", b"2001:db8::1,ts,x\n", b"7,ts,x\n"])
@pytest.mark.parametrize("header", [b"ts,a\n", b""])
def test_a_torn_row_that_has_the_name_of_the_time_is_no_header(torn: bytes, header: bytes) -> None:
    carrying = Carrying(make_format("csv").carrier)
    for chunk in (header, torn):
        carrying.before(chunk)
    assert carrying.before(b"") == ((header,) if header else ())
    for chunks in ([header + torn], [header, torn]):
        assert in_chunks("csv", *chunks)[0] == Counters(1 + bool(header), rejected=1, headers=bool(header))


@pytest.mark.parametrize(("header", "row"), [(b",ts,a\n", b"0,1795683600,1\n"), (b"ts,a,\n", b"1795683600,1,\n")])
def test_a_column_of_a_header_may_have_no_name(header: bytes, row: bytes) -> None:
    assert in_chunks("csv", header, row) == (Counters(2, 1, headers=1), ["1"])


def wide(name: str, size: int) -> bytes:
    """Return a header of more bytes than the size, and of names that all differ."""
    between = b"," if name == "csv" else b" "
    names = [b"%06d_n" % number for number in range(size // 9 + 1)]
    return between.join([b"ts" if name == "csv" else b"#Fields: date time", *names])


def test_a_header_of_csv_that_is_too_long_is_none() -> None:
    header = wide("csv", HEADER_BYTES_MAX)
    parsed = parse_chunk(make_format("csv"), header + b"\n1795683600,1\n", {})
    assert parsed.counters == Counters(2, rejected=2)
    assert {why for _, why in parsed.rejects} == {"no_header"}


def test_a_header_of_w3c_that_is_too_long_is_refused_in_a_sentence() -> None:
    header = wide("w3c", HEADER_BYTES_MAX)
    row = b"2026-11-26 09:00:00 1"
    format = make_format("w3c")
    parsed = parse_chunk(format, header + b"\n" + row + b"\n", {})
    assert parsed.counters == Counters(2, rejected=1, headers=1) and parsed.rejects == ((row, "header"),)
    assert isinstance(format, HeadedLines)
    assert format.fault(header) == "its #Fields are longer than 65536 bytes"


@pytest.mark.parametrize("name", ["w3c", "csv"])
def test_a_wide_header_is_compiled(name: str) -> None:
    names = [b"n%x" % number for number in range(10_000)]
    between, header, time = b" ", b"#Fields: date time", b"2026-11-26 09:00:00"
    if name == "csv":
        between, header, time = b",", b"ts", b"1795683600"
    text = between.join([header, *names]) + b"\n" + between.join([time, *[b"7"] * len(names)]) + b"\n"
    assert parse_chunk(make_format(name), text, {}).counters == Counters(2, 1, headers=1)


def test_a_header_that_is_too_long_for_a_line_names_nothing() -> None:
    row = b"2026-11-26 09:00:00 1\n"
    counters, _ = in_chunks("w3c", wide("w3c", LINE_BYTES_MAX) + b"\n", row)
    assert counters == Counters(2, rejected=2)


@pytest.mark.parametrize("name", ["w3c", "csv"])
@pytest.mark.parametrize("odd", [b"\0", b"\0\0"])
def test_a_nul_in_a_header_is_no_part_of_it(name: str, odd: bytes) -> None:
    """Neither for who reads the rows of a chunk, nor for who carries headers to those of the next one."""
    header, row = (b"#Fields: date time a\n", b"2026-11-26 09:00:00 1\n") if name == "w3c" else (b"ts,a\n", b"1,1\n")
    other = header.replace(b" a\n", b" b a\n").replace(b",a\n", b",b,a\n")
    for place in range(len(other)):
        lines = (header, row, other[:place] + odd + other[place:], row.replace(b"1\n", b"2" + row[-3:-2] + b"1\n"))
        wanted = in_chunks(name, b"".join(lines))
        assert in_chunks(name, *lines) == wanted and wanted[0] == Counters(4, 2, headers=2), place
