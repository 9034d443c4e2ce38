"""Formats of objects that have a name, against the samples that LINES gives of each."""

from __future__ import annotations

import datetime
import json
import math
import zoneinfo

import pytest

from elf.agents.errors import ConfigError
from elf.agents.sources.counters import Counters
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.objects.named import OBJECTS
from elf.agents.sources.recognition import recognise
from tests.agents.sources.format_files import formats

EPOCH, MILLISECOND = datetime.datetime(1970, 1, 1), datetime.timedelta(milliseconds=1)


def chunk_of(name: str) -> bytes:
    return "".join(sample["line"] + "\n" for sample in formats()[name]["samples"]).encode()


@pytest.mark.parametrize("name", OBJECTS)
def test_samples_become_what_they_have_to(name: str) -> None:
    format = make_format(name)
    assert format.columns is not None
    parsed = parse_chunk(format, chunk_of(name), format.columns)
    assert parsed.rejects == () and parsed.oddities.mistyped == {}
    for row, sample in zip(parsed.events.to_dicts(), formats()[name]["samples"], strict=True):
        expected = sample["expect"]
        assert (row.pop("ts") - EPOCH) // MILLISECOND == expected["ts"]
        made = row.pop("request_time") if OBJECTS[name].seconds else None
        assert row == {column: expected.get(column) for column in row}
        assert made is None or math.isclose(made, expected["request_time_ns"] / 1e9)


def test_the_declarations_are_those_of_the_descriptions() -> None:
    for name, objects in OBJECTS.items():
        assert {"ts": objects.time, **objects.paths} == formats()[name]["columns_from"]
        assert set(objects.columns) - set(objects.seconds) == set(formats()[name]["columns"]) - {"ts"}


@pytest.mark.parametrize("name", OBJECTS)
def test_their_lines_are_recognised(name: str) -> None:
    found = recognise(chunk_of(name))
    assert found.format is not None and found.format.names == (name,)
    assert make_format(name.upper().replace("-", "_")).name == name


def test_objects_of_other_programs_are_only_json() -> None:
    lines = b'{"time":"2026-11-26T09:00:00Z","method":"GET","path":"/"}\n' * 5
    found = recognise(lines)
    assert found.format is not None and found.format.names == ("json",)


def test_lines_without_what_they_have_to_have_are_refused() -> None:
    lines = [
        {"ts": 1795683600.5, "request": {"method": "GET", "uri": "/"}},
        {"ts": 1795683600.5, "request": {"method": "GET", "uri": "-"}},
        {"ts": 1795683600.5, "level": "error"},
        {"ts": "soon", "request": {"method": "GET", "uri": "/"}},
    ]
    parsed = parse_chunk(make_format("caddy"), "".join(f"{json.dumps(line)}\n" for line in lines).encode(), {})
    assert parsed.counters == Counters(read=4, parsed=1, rejected=3)
    assert [why for _, why in parsed.rejects] == ["format:no_uri", "format:no_method", "time"]


def test_blanks_are_null_and_not_mistyped() -> None:
    line = b'{"ts":1,"request":{"method":"GET","uri":"/a?b"},"size":"-","status":"","duration":"x","user_id":"-"}\n'
    format = make_format("caddy")
    parsed = parse_chunk(format, line, format.columns or {})
    assert parsed.oddities.mistyped == {"request_time": 1}
    row = parsed.events.row(0, named=True)
    assert (row["bytes"], row["status"], row["remote_user"]) == (None, None, None)
    assert (row["uri"], row["path"], row["query"]) == ("/a?b", "/a", "b")


def test_seconds_that_are_made_of_no_number_are_mistyped_under_their_own_name() -> None:
    (sample, *_) = formats()["traefik-json"]["samples"]
    lines = [json.loads(sample["line"]) | {"Duration": value} for value in ("soon", 1_500_000_000, None)]
    format = make_format("traefik-json")
    wanted = {"request_time": (format.columns or {})["request_time"]}
    parsed = parse_chunk(format, "".join(f"{json.dumps(line)}\n" for line in lines).encode(), wanted)
    assert parsed.events["request_time"].to_list() == [None, 1.5, None]
    assert parsed.oddities.mistyped == {"request_time": 1}
    assert list(parsed.mistyped) == ["request_time"]


@pytest.mark.parametrize(
    ("number", "ms"), [("1795683600123456", 1795683600123), ("1795683600123456789", 1795683600123)]
)
def test_times_in_us_and_ns_are_told_by_their_digits(number: str, ms: int) -> None:
    parsed = parse_chunk(make_format("json", zone=zoneinfo.ZoneInfo("UTC")), b'{"ts":%s}\n' % number.encode(), {})
    assert (parsed.events["ts"][0] - EPOCH) // MILLISECOND == ms


def test_they_go_together_with_no_other() -> None:
    with pytest.raises(ConfigError, match="caddy does not go together"):
        make_format(["caddy", "combined"])
