"""LTSV and logfmt as frames of events."""

from __future__ import annotations

import zoneinfo

import pytest

from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Counters, Parsed
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.inference import infer
from elf.agents.sources.raw_texts import raw_name
from tests.agents.sources.format_files import formats, rows

NOW_MS = 1_795_683_600_000


def parsed_lines(name: str, *lines: str, time: str = "ts", zone: str = "UTC", **wanted: SqlType) -> Parsed:
    format = make_format(name, time=time, zone=zoneinfo.ZoneInfo(zone), now_ms=lambda: NOW_MS)
    return parse_chunk(format, "".join(line + "\n" for line in lines).encode(), wanted)


@pytest.mark.parametrize("name", ["ltsv", "logfmt"])
def test_samples_become_what_they_have_to(name: str) -> None:
    samples = formats()[name]["samples"]
    columns = {column: SqlType.STRING for column in formats()[name]["columns"] if column != "ts"}
    parsed = parsed_lines(name, *(sample["line"] for sample in samples), **columns)
    assert parsed.counters == Counters(len(samples), len(samples))
    for row, sample in zip(rows(parsed), samples, strict=True):
        assert row == {column: sample["expect"].get(column) for column in row}


@pytest.mark.parametrize("name", ["ltsv", "logfmt"])
def test_what_looks_alike_is_refused(name: str) -> None:
    refused = formats()[name]["refused"] + [
        "",
        "a",
        "a:1",
        "a=1",
        "{}",
        "a:1 b:2",
        "=1 =2",
        'a=" b=1',
        'ts=1 a="\\x1b"',
    ]
    assert parsed_lines(name, *refused).counters == Counters(len(refused), rejected=len(refused))


def test_values_become_the_types_that_are_asked_for() -> None:
    lines = ["ts:1795683600\tn:1\td:2.5", "ts:1795683601\tn:2.0\td:x", "ts:1795683602\tn:n/a\td:", "ts:1795683603\tn:-"]
    parsed = parsed_lines("ltsv", *lines, n=SqlType.BIGINT, d=SqlType.DOUBLE)
    assert parsed.events["n"].to_list() == [1, 2, None, None] and parsed.events["d"].to_list() == [
        2.5,
        None,
        None,
        None,
    ]
    assert parsed.oddities.mistyped == {"n": 1, "d": 1}
    assert {name: times.tolist() for name, times in parsed.mistyped.items()} == {
        "n": [1795683602000],
        "d": [1795683601000],
    }
    raw = parsed.events.select(raw_name("n"), raw_name("d")).rows()
    assert raw == [(None, None), (None, "x"), ("n/a", None), (None, None)]


def test_escapes_are_those_of_json_between_quotes_only() -> None:
    parsed = parsed_lines(
        "logfmt", 'ts=1795683600 a="\\u00e9\\ud83e\\udd17\\n\\"\\\\" b=C:\\n', 'ts=1795683600 a="" b="C:\\\\n"',
        a=SqlType.STRING, b=SqlType.STRING,
    )  # fmt: skip
    assert parsed.events.select("a", "b").rows() == [('é🤗\n"\\', "C:\\n"), ("", "C:\\n")]


@pytest.mark.parametrize("name", ["ltsv", "logfmt"])
def test_the_time_is_the_first_field_that_may_have_it_or_the_one_that_is_named(name: str) -> None:
    line = {"ltsv": "time:1795683600\tts:1795683601\twhen:[26/Nov/2026:10:00:02 +0100]\tat:2026-11-26 10:00:03"}
    line["logfmt"] = 'time=1795683600 ts=1795683601 when="[26/Nov/2026:10:00:02 +0100]" at="2026-11-26 10:00:03"'
    for time, zone, seconds in (("ts", "UTC", 1), ("time", "UTC", 0), ("when", "UTC", 2), ("at", "Europe/Berlin", 3)):
        parsed = parsed_lines(name, line[name], time=time, zone=zone)
        assert [row["ts"] for row in rows(parsed)] == [NOW_MS + 1_000 * seconds]
    assert parsed_lines(name, line[name], time="nope").rejects == ((line[name].encode(), "time"),)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("csv", b"ts,n,d,s,b,z\n1795683600,1,1,a,true,007\n1795683601,2,2.5,1,false,008\n"),
        ("ltsv", b"ts:1795683600\tn:1\td:1\ts:a\tb:true\tz:007\nts:1795683601\tn:2\td:2.5\ts:1\tb:false\tz:008\n"),
        ("logfmt", b"ts=1795683600 n=1 d=1 s=a b=true z=007\nts=1795683601 n=2 d=2.5 s=1 b=false z=008\n"),
    ],
)
def test_types_are_those_that_all_values_have(name: str, lines: bytes) -> None:
    inferred = infer(make_format(name), lines, ["n", "d", "s", "b", "z", "nope"])
    assert inferred.columns == {
        "n": SqlType.BIGINT, "d": SqlType.DOUBLE, "s": SqlType.STRING, "b": SqlType.BOOLEAN, "z": SqlType.STRING,
    }  # fmt: skip
    assert set(inferred.missing) == {"nope"} and "n" in inferred.fields


def test_lines_that_a_job_does_not_want_are_skipped_but_those_with_an_escape() -> None:
    lines = b'ts=1 a=x b=1\nts=1 a="\\u0078" b=2\nts=1 a=y b=3\n'
    parsed = parse_chunk(make_format("logfmt"), lines, {"a": SqlType.STRING}, [["x"]])
    assert parsed.counters == Counters(3, 2, filtered=1)
