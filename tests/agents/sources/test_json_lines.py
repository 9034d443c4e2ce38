"""JSON lines against Python's json module, line by line."""

from __future__ import annotations

import json
import math
import re
import string
from collections.abc import Callable
from datetime import date, datetime
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.language.types import SqlType
from elf.agents.sources import json_lines
from elf.agents.sources.counters import REJECTS_MAX, Counters
from elf.agents.sources.format import parse_chunk
from elf.agents.sources.json_lines import JsonLines
from elf.agents.sources.lines import LINE_BYTES_MAX

WANTED = {
    "s": SqlType.STRING,
    "i": SqlType.INT,
    "n": SqlType.BIGINT,
    "x": SqlType.DOUBLE,
    "b": SqlType.BOOLEAN,
    "d": SqlType.DATE,
    "t": SqlType.TIMESTAMP,
}
TIME = "2026-11-20T10:00:00Z"


class Number(str):
    """A number as it was written."""


def loads(line: bytes) -> dict[str, Any]:
    """What Python makes of the line; raises ValueError where it is no JSON object."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    text = line.decode("utf-8", "replace")
    value = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=refuse)
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def whole(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def integer(limit: int) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, Number) or (isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,19}", value)):
            if re.fullmatch(r"[+-]?[0-9]+", value):
                number = int(value)
            else:
                number = int(float(value)) if math.isfinite(float(value)) and float(value).is_integer() else limit
            return number if -limit <= number < limit else None
        return None

    return convert


def double(value: Any) -> Any:
    pattern = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
    if isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII) and math.isfinite(float(value)):
        return float(value)
    return None


def boolean(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and not isinstance(value, Number):
        return {"true": True, "false": False}.get(value.lower())
    return None


EXPECTED: dict[str, Callable[[Any], Any]] = {
    "i": integer(2**31),
    "n": integer(2**63),
    "x": double,
    "b": boolean,
}


def same_string(got: str | None, value: Any) -> bool:
    if isinstance(value, Number):
        return got == str(value)
    if isinstance(value, str):
        return got == whole(value)
    if value is None:
        return got is None
    return got is not None and plain(json.loads(got, parse_int=Number, parse_float=Number)) == plain(value)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {whole(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return whole(value) if isinstance(value, str) else value


def is_time(value: Any) -> bool:
    if isinstance(value, Number):
        number = float(value)
        return 0 <= (number * 1_000 if number < 1e11 else number) <= 253_402_300_799_999
    pattern = r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d{1,9})?([Zz]|[+-](0\d|1[0-8])(:?[0-5]\d)?)?"
    if not isinstance(value, str) or not (match := re.fullmatch(pattern, value, re.ASCII)):
        return False
    try:
        datetime.fromisoformat(f"{match[1]}T{match[2]}")
    except ValueError:
        return False
    return True


def check(chunk: bytes) -> None:
    parsed = parse_chunk(JsonLines(), chunk, WANTED)
    lines = [line.rstrip(b"\r") for line in chunk.replace(b"\0", b"").split(b"\n")[:-1]]
    rows = iter(parsed.events.drop("ts").to_dicts())  # a time before year 1 has no Python value
    rejected = []
    for line in lines:
        line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            expected = loads(line)
        except (ValueError, RecursionError):
            rejected.append(line)
            continue
        if not is_time(expected.get("ts")):
            rejected.append(line)
            continue
        row = next(rows)
        assert same_string(row["s"], expected.get("s")), (line, row)
        for name, convert in EXPECTED.items():
            assert row[name] == convert(expected.get(name)), (line, name, row)
    assert next(rows, None) is None
    assert parsed.counters == Counters(read=len(lines), parsed=parsed.events.height, rejected=len(rejected))
    assert parsed.counters.balanced
    assert len(parsed.rejects) == len(rejected)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**63) - 1, 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["1", "-7", "1.5", "true", "FALSE", "null", "", " 1", "1e3", "+5", "0x1", "\uff12"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2)
)
NAMES = st.sampled_from([*WANTED, "ts", "other"]) | st.text(max_size=3)


@st.composite
def json_line(draw: st.DrawFn) -> bytes:
    """An object, often with duplicates, spaces and escapes, as some program may write it."""
    items = draw(st.lists(st.tuples(NAMES, VALUES), max_size=5))
    items.insert(draw(st.integers(0, len(items))), ("ts", TIME))
    ascii_only = draw(st.booleans())
    colon, comma = draw(st.sampled_from([(":", ","), (": ", ", "), (" :\t", " ,\r")]))

    def dumps(value: object) -> bytes:
        return json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "replace")

    fields = (dumps(name) + colon.encode() + dumps(value) for name, value in items)
    return b"{" + comma.encode().join(fields) + b"}"


@st.composite
def damaged_line(draw: st.DrawFn) -> bytes:
    """A line in which some bytes were cut out, or others put in."""
    line = draw(json_line())
    begin = draw(st.integers(0, len(line)))
    end = draw(st.integers(begin, min(len(line), begin + 8)))
    pieces = [
        b"",
        b"{",
        b"}",
        b'"',
        b",",
        b"\\",
        b"\\ud800",
        b"\xff",
        b"\xc3",
        b"1",
        b"NaN",
        b"\n",
        b"}{",
        b"\x01",
        b"\0",
    ]
    return line[:begin] + draw(st.sampled_from(pieces)) + line[end:]


LINES = json_line() | damaged_line() | st.binary(max_size=20) | st.sampled_from([b"", b"{}", b"[]", b"1", b"null"])


@settings(max_examples=400)
@given(st.lists(LINES, max_size=6), st.sampled_from([b"\n", b"\r\n"]))
def test_every_line_ends_as_python_says(lines: list[bytes], end: bytes) -> None:
    check(b"".join(line + end for line in lines))


NUMBER_LINES = [b'{"ts":"%s","n":%d,"s":"v%d"}' % (TIME.encode(), i, i) for i in range(1000)]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 999), damaged_line()), max_size=5))
def test_a_bad_line_does_not_touch_the_others(damage: list[tuple[int, bytes]]) -> None:
    lines = list(NUMBER_LINES)
    for index, line in damage:
        lines[index] = line
    check(b"".join(line + b"\n" for line in lines))


TIMES = st.sampled_from(
    [
        TIME, "2026-11-20T10:00:00.123Z", "2026-11-20 10:00:00.123z", "2026-11-20T10:00:00.12+01:00", "x" * len(TIME),
        "2026-11-20T10:00:0\\u0030Z", "2026-02-30T10:00:00Z", "2026-11-20T10:00:00é", "", '2026-11-20T10:00:00Z"',
    ]
)  # fmt: skip
MORE = st.sampled_from(
    [
        "", ',"n":1', ',"n":2,"s":"v"', ',"ts":"2026-11-20T11:00:00Z"', ',"\\u0074s":"2026-11-20T11:00:00Z"',
        ',"ts":null', ',"ts":1763632800', ',"ts":99999999999999999999999', ',"o":{"ts":1}', ',"o":"ts"', ',"ta":1',
        ',"n":', ",", "}", '},{"n":1', '}{"n":1', ',"s":"é"', ',"s":"\udcff"', ',"n":"1"', ',"x":1e999',
        ',"o":"\x01"', ',"o":"\udcff"', ',"o":[[', ',"o":nul', ',"o":01', " ",
    ]
)  # fmt: skip
FRONTS = st.sampled_from(
    ['{"ts":"', '{ "ts" :\t"', '{"tt":"', '{"ts":', '{"ts","', ' {"ts":"', '{"ts":["', '["ts":"', '{"ta":"']
)
ENDS = st.just('"') | st.sampled_from(['"', "", '" ', '"]', "'"])
BRACES = st.sampled_from(["}", "}", "}", "", "} "])
# Strategies that are made anew for each line take longer than what they are for.
COUNTS, AS_USUAL = st.integers(1, 8), st.booleans()


@st.composite
def fronted_lines(draw: st.DrawFn) -> list[bytes]:
    """Lines of nearly one shape, each a copy of the first with few things changed."""
    usual = [draw(part) for part in (FRONTS, TIMES)]
    lines = []
    for _ in range(draw(COUNTS)):
        front, time = (one if draw(AS_USUAL) else draw(part) for one, part in zip(usual, (FRONTS, TIMES), strict=True))
        line = f"{front}{time}{draw(ENDS)}{draw(MORE)}{draw(BRACES)}"
        lines.append(line.encode("utf-8", "surrogateescape"))
    return lines


@settings(max_examples=1500)
@given(fronted_lines(), st.sampled_from([40, 64 << 10]))
def test_lines_that_begin_with_the_time_end_as_python_says(lines: list[bytes], block_bytes: int) -> None:
    with patch.object(json_lines, "_BLOCK_BYTES", block_bytes):
        check(b"".join(line + b"\n" for line in lines))


def test_a_time_that_comes_twice_counts_as_the_last_says() -> None:
    chunk = "".join(f'{{"ts":"{TIME}","n":{i}}}\n' for i in range(1000))
    for again in ('"ts"', '"\\u0074s"', '"t\\u0073"'):
        line = f'{{"ts":"{TIME}","n":1000,{again}:"2027-01-01T00:00:00Z"}}\n'
        events = parse_chunk(JsonLines(), (chunk + line + chunk).encode(), {"n": SqlType.BIGINT}).events
        assert events["ts"].n_unique() == 2
        assert events["ts"][1000] == datetime(2027, 1, 1)
        assert events["n"].to_list() == [*range(1000), 1000, *range(1000)]


def test_names_next_to_the_time_s_are_not_taken_for_it() -> None:
    # In the decoder's copy the time has another name: none of a wanted column.
    wanted = {f"t{letter}": SqlType.STRING for letter in string.ascii_letters if letter != "s"}
    for columns in (wanted, dict(list(wanted.items())[1:]), {"ta": SqlType.STRING}):
        events = parse_chunk(JsonLines(), f'{{"ts":"{TIME}","tb":"x"}}\n'.encode() * 3, columns).events
        assert events.drop("ts").to_dicts() == [{name: "x" if name == "tb" else None for name in columns}] * 3
        assert events["ts"].to_list() == [datetime(2026, 11, 20, 10)] * 3


def test_fronts_and_other_lines_keep_their_order() -> None:
    lines = [
        f'{{"ts":"2026-11-20T10:00:{i % 60:02}Z","n":{i}}}\n'
        if i % 900 < 600
        else f'{{"n":{i},"ts":{1763632800 + i}}}\n'
        for i in range(9000)
    ]
    events = parse_chunk(JsonLines(), "".join(lines).encode(), {"n": SqlType.BIGINT}).events
    assert events["n"].to_list() == list(range(9000))
    seconds = [1795168800 + i % 60 if i % 900 < 600 else 1763632800 + i for i in range(9000)]
    assert (events["ts"].dt.epoch("s")).to_list() == seconds


def parse(*lines: str, time: str = "ts", wanted: dict[str, SqlType] | None = None) -> list[dict[str, Any]]:
    chunk = "".join(line + "\n" for line in lines).encode()
    return parse_chunk(JsonLines(time), chunk, WANTED if wanted is None else wanted).events.to_dicts()


def test_lines_that_only_together_are_json_are_rejected() -> None:
    # The decoder knows lines only as white space: it would read two objects from these two lines.
    chunk = f'{{"ts":"{TIME}","n":\n1}}{{"ts":"{TIME}"}}\n'.encode()
    assert parse_chunk(JsonLines(), chunk, WANTED).counters == Counters(read=2, rejected=2)


def test_values_of_other_types_keep_their_text_in_a_string_column() -> None:
    texts = ["1.50", "1e2", "true", '{"a": [1, 2]}', "[]", "12345678901234567890123"]
    rows = parse(*(f'{{"ts":"{TIME}","s":{text}}}' for text in texts))
    assert [row["s"] for row in rows] == texts


def test_a_value_that_does_not_fit_is_null_and_counted() -> None:
    line = f'{{"ts":"{TIME}","i":2147483648,"n":"many","x":[1],"b":"yes","d":"2026-02-30","t":"noon"}}\n'
    parsed = parse_chunk(JsonLines(), line.encode(), WANTED)
    assert parsed.oddities.mistyped == dict.fromkeys("inxbdt", 1)
    assert parsed.events.select(*WANTED).row(0) == (None,) * 7


#: Times of the years 0 and 10000, and of others that notations can say and calendars do not have.
BEYOND = [
    '"0000-12-31T23:59:59Z"',
    '"0001-01-01T00:00:00+00:01"',
    '"9999-12-31T23:59:59-00:01"',
    "253402300800000",
    "-62135596800001",
    "1704067200000000",
    "-1704067200000000",
    "1e300",
]


@pytest.mark.parametrize("time", BEYOND)
def test_a_time_outside_the_years_1_to_9999_is_no_event_time(time: str) -> None:
    parsed = parse_chunk(JsonLines(), f'{{"ts":{time}}}\n{{"ts":"{TIME}"}}\n'.encode(), {})
    assert parsed.counters == Counters(read=2, parsed=1, rejected=1)
    assert [reason for _, reason in parsed.rejects] == ["time"]


@pytest.mark.parametrize("time", BEYOND)
def test_a_time_outside_the_years_1_to_9999_in_a_column_is_null_and_counted(time: str) -> None:
    lines = f'{{"ts":"{TIME}","t":{time},"d":"0000-02-29"}}\n{{"ts":"{TIME}","t":"{TIME}","d":"0001-01-01"}}\n'
    parsed = parse_chunk(JsonLines(), lines.encode(), WANTED)
    assert parsed.oddities.mistyped == {"d": 1, "t": 1}
    assert parsed.events["t"].is_null().to_list() == [True, False]
    assert parsed.events["d"].to_list() == [None, date(1, 1, 1)]


def test_dates_and_timestamps() -> None:
    (row,) = parse(f'{{"ts":"{TIME}","d":"2024-02-29","t":"2026-11-20T10:00:00.123456+01:00"}}')
    assert row["d"] == date(2024, 2, 29)
    assert row["t"] == datetime(2026, 11, 20, 9, 0, 0, 123456)


@pytest.mark.parametrize("value", ["1763632800", "1763632800.25", "1763632800250", '"2025-11-20T10:00:00.250Z"'])
def test_event_time_from_another_field(value: str) -> None:
    (row,) = parse(f'{{"when":{value},"ts":"shadowed"}}', time="when", wanted={})
    assert row["ts"].replace(microsecond=0) == datetime(2025, 11, 20, 10)


def test_the_time_field_can_be_a_column_too() -> None:
    rows = parse('{"when":1763632800.50}', '{"when":1763632800}', time="when", wanted={"when": SqlType.STRING})
    assert [row["when"] for row in rows] == ["1763632800.50", "1763632800"]
    assert rows[0]["ts"] == datetime(2025, 11, 20, 10, 0, 0, 500_000)


def test_a_line_without_time_is_rejected_with_the_reason() -> None:
    parsed = parse_chunk(JsonLines(), b'{"ts":"soon"}\n{"s":"a"}\n{"ts":true}\n', WANTED)
    assert parsed.counters == Counters(read=3, rejected=3)
    assert [reason for _, reason in parsed.rejects] == ["time"] * 3


def test_invalid_utf8_is_replaced_and_counted() -> None:
    parsed = parse_chunk(JsonLines(), b'{"ts":"%s","s":"a\xffb"}\n' % TIME.encode(), WANTED)
    assert parsed.events["s"].to_list() == ["a\ufffdb"]
    assert parsed.oddities.bad_encoding == 1


@pytest.mark.parametrize("bad", [1, REJECTS_MAX - 1, REJECTS_MAX, REJECTS_MAX + 1, 3 * REJECTS_MAX])
def test_lines_without_time_are_counted_once_however_many_are_kept(bad: int) -> None:
    parsed = parse_chunk(JsonLines(), b'{"ts": "nope"}\n' * bad + b'{"ts": 1767225600}\n', WANTED)
    assert parsed.counters == Counters(read=bad + 1, parsed=1, rejected=bad)
    assert len(parsed.rejects) == min(bad, REJECTS_MAX)


def test_a_huge_line_is_rejected_and_the_rest_read() -> None:
    good = f'{{"ts":"{TIME}"}}\n'.encode()
    huge = b'{"ts":"%s","s":"%s"}\n' % (TIME.encode(), b"x" * LINE_BYTES_MAX)
    parsed = parse_chunk(JsonLines(), good + huge + good, WANTED)
    assert parsed.counters == Counters(read=3, parsed=2, rejected=1)
    assert parsed.oddities.truncated == 1
    assert parsed.rejects[0][1] == "line_too_long"


def test_deep_nesting_is_rejected_not_fatal() -> None:
    line = f'{{"ts":"{TIME}","o":{"[" * 100_000}{"]" * 100_000}}}\n'.encode()
    assert parse_chunk(JsonLines(), line, WANTED).counters.rejected == 1


def test_the_sample_of_rejects_is_bounded() -> None:
    parsed = parse_chunk(JsonLines(), (b"x" * 10_000 + b"\n") * 500, WANTED)
    assert parsed.counters.rejected == 500
    assert len(parsed.rejects) == 100
    assert max(len(line) for line, _ in parsed.rejects) == 4096


WORDS = ["click", "Video Games", 'Bruno "B"', "caf\u00e9", "a/b", "\\", "x"]


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS), st.sampled_from("aue")), max_size=8),
    st.lists(st.lists(st.sampled_from(WORDS), max_size=2), min_size=1, max_size=2),
)
def test_the_prefilter_never_skips_a_line_that_a_job_wants(
    values: list[tuple[str, str, str]], jobs: list[list[str]]
) -> None:
    def written(value: str, how: str) -> str:
        if how == "u":
            return '"' + "".join(f"\\u{ord(character):04x}" for character in value) + '"'
        return json.dumps(value, ensure_ascii=how == "a").replace("/", "\\/" if how == "e" else "/")

    chunk = "".join(f'{{"ts":"{TIME}","s":{written(a, how)},"o":{written(b, how)}}}\n' for a, b, how in values).encode()
    parsed = parse_chunk(JsonLines(), chunk, {"s": SqlType.STRING, "o": SqlType.STRING}, jobs)
    got = [(row["s"], row["o"]) for row in parsed.events.to_dicts()]
    wanted = [(a, b) for a, b, _ in values if any(all(word in (a, b) for word in words) for words in jobs)]
    assert [pair for pair in got if any(all(word in pair for word in words) for words in jobs)] == wanted
    assert parsed.counters.balanced
    assert parsed.counters.read == len(values)


@pytest.mark.parametrize(
    ("chunk", "parsed"),
    [
        (b'{"ts":1,"s":"needle"}\n{"ts":1,"s":"x"}\n', 1),
        (b'{"ts":1,"s":"needle"}\n{"ts":1,"s":"x"}', 1),
        (b'{"ts":1,"s":"\\u006eeedle"}\n{"ts":1,"s":"x"}\n', 1),
        (b'{"ts":1,"s":"\\\x00u006eeedle"}\n{"ts":1,"s":"x"}\n', 1),  # an escape once the NUL is taken out
        (b'{"ts":1,"s":"nee\x00dle"}\r\n{"ts":1,"s":"x"}\r\n', 1),
        (b'\xef\xbb\xbf{"ts":1,"s":"needle"}\n{"ts":1,"s":"\xff"}\n', 1),
        (b'{"ts":1,"s":"x"}\n{"ts":1,"s":"\\', 0),
    ],
)
def test_lines_that_hide_a_wanted_text_are_kept(chunk: bytes, parsed: int) -> None:
    result = parse_chunk(JsonLines(), chunk, {"s": SqlType.STRING}, [["needle"]])
    assert result.counters == Counters(read=2, parsed=parsed, filtered=2 - parsed)
    assert result.events["s"].to_list() == ["needle"] * parsed
