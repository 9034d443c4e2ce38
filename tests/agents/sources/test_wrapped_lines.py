"""Lines in wrappers: container runtimes' logs and the journal, whole and in parts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType
from elf.agents.sources.carried import Carrying
from elf.agents.sources.counters import Counters
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.inference import infer
from elf.agents.sources.wrapped.records import PARTS_MAX
from tests.agents.sources.format_files import formats, rows

NOW_MS = 1_795_683_600_000


@pytest.mark.parametrize("name", ["docker", "journald", "cri"])
def test_samples_become_what_they_have_to(name: str) -> None:
    entry = formats()[name]
    format = make_format(f"{name}+{entry['wraps']}", now_ms=lambda: NOW_MS)
    text = "".join(sample["line"] + "\n" for sample in entry["samples"]).encode()
    parsed = parse_chunk(format, text, format.columns or {})
    expected = [sample["expect"] for sample in entry["samples"] if sample["expect"]]
    assert parsed.rejects == ()
    assert parsed.counters == Counters(3, len(expected), parts=3 - len(expected))
    for row, right in zip(rows(parsed), expected, strict=True):
        row.pop("request")
        assert row == {column: right.get(column) for column in row}
    refused = "".join(line + "\n" for line in entry["refused"]).encode()
    assert parse_chunk(format, refused, {}).counters == Counters(1, rejected=1)


def test_types_of_what_stands_in_wrappers_are_those_of_its_values() -> None:
    line = '2026-11-26T09:00:00Z stdout F {"ts":"2026-11-26T09:00:00Z","n":1,"d":1.5}\n'
    inferred = infer(make_format("cri+json"), line.encode() * 3, ["n", "d", "stream", "nope"])
    assert inferred.columns == {"n": SqlType.BIGINT, "d": SqlType.DOUBLE, "stream": SqlType.STRING}
    assert set(inferred.missing) == {"nope"}


def test_a_wrapper_alone_has_its_texts_as_messages() -> None:
    columns = dict.fromkeys(("stream", "message"), SqlType.STRING)
    lines = '{"log":"a\\n","stream":"stdout","time":"2026-11-26T09:00:00Z"}\n{"log":"","stream":"stderr","time":1}\n'
    parsed = parse_chunk(make_format("docker"), lines.encode() + b'{"log":"x","time":1}\n', columns)
    assert [(row["stream"], row["message"]) for row in rows(parsed)] == [("stdout", "a")]
    assert parsed.counters == Counters(2, 1, 1)  # what has begun is not read yet


def test_what_stands_around_lines_may_not_fit_its_type_either() -> None:
    line = b"2026-11-26T09:00:00Z %s F time:%d\tn:%s\n"
    chunk = line % (b"stdout", NOW_MS, b"1") + line % (b"stderr", NOW_MS, b"x")
    parsed = parse_chunk(make_format("cri+ltsv"), chunk, {"stream": SqlType.BIGINT, "n": SqlType.BIGINT})
    assert parsed.oddities.mistyped == {"stream": 2, "n": 1}
    assert {name: times.tolist() for name, times in parsed.mistyped.items()} == {"stream": [NOW_MS] * 2, "n": [NOW_MS]}
    assert parsed.events.select("stream[raw]", "n[raw]").rows() == [("stdout", None), ("stderr", "x")]
    alone = parse_chunk(make_format("cri"), chunk, {"message": SqlType.DOUBLE})
    assert alone.oddities.mistyped == {"message": 2} and alone.events["message[raw]"].null_count() == 0


@pytest.mark.parametrize("tag", ["-", "P"])
def test_a_tag_that_is_not_f_ends_nothing(tag: str) -> None:
    first, last = (f"2026-11-26T09:00:00Z stdout {each} a\n" for each in (tag, "F"))
    held = "2026-11-26T09:00:00Z stderr P b\n2026-11-26T09:00:00Z stderr F c\n"
    parsed = parse_chunk(make_format("cri"), (held + first + last).encode(), {"message": SqlType.STRING})
    assert parsed.events["message"].to_list() == ["bc", "aa"] and parsed.counters == Counters(4, 2, parts=2)


def in_chunks(name: str, *chunks: bytes) -> tuple[Counters, list[str | None]]:
    """Read chunks of one log; return what was counted, and the texts that stand in it."""
    format = make_format(name)
    carrying, counters, found = Carrying(format.carrier), Counters(), list[str | None]()
    for chunk in chunks:
        carried = carrying.before(chunk)
        assert len(carried) <= 2 * PARTS_MAX
        parsed = parse_chunk(format, chunk, {"message": SqlType.STRING}, carried=carried)
        counters += parsed.counters
        found += parsed.events["message"].to_list()
    return counters, found


def cri(text: bytes, is_end: bool, time: bytes = b"2026-11-26T09:00:00.123456789Z") -> bytes:
    return b"%s stdout %s %s\n" % (time, b"F" if is_end else b"P", text)


def docker(text: bytes, is_end: bool, time: bytes = b'"2026-11-26T09:00:00.123456789Z"') -> bytes:
    return b'{"log":"%s%s","stream":"stdout","time":%s}\n' % (text, b"\\n" if is_end else b"", time)


def check_in_any_chunks(name: str, lines: Sequence[bytes], wanted: tuple[Counters, list[str | None]]) -> None:
    for cuts in ([0, 3], [0, 1, 3], [0, 2, 3], [0, 1, 2, 3]):
        assert in_chunks(name, *(b"".join(lines[begin:end]) for begin, end in pairwise(cuts))) == wanted


@pytest.mark.parametrize("time", [b"x", b"2026", b"2026-13-26T09:00:00Z", b"1795683600", b"2026-11-26T09:00:00Zx"])
def test_a_line_of_cri_that_is_rejected_ends_no_record(time: bytes) -> None:
    lines = [cri(b"be", False), cri(b"torn", True, time), cri(b"gun", True)]
    check_in_any_chunks("cri", lines, (Counters(3, 1, 1, parts=1), ["begun"]))


@pytest.mark.parametrize("time", [b"null", b'"x"', b'"2026-13-26T09:00:00Z"', b"true", b"{}"])
def test_a_line_of_docker_that_is_rejected_ends_no_record(time: bytes) -> None:
    lines = [docker(b"be", False), docker(b"torn", True, time), docker(b"gun", True)]
    check_in_any_chunks("docker", lines, (Counters(3, 1, 1, parts=1), ["begun"]))


def test_a_line_ends_a_record_with_any_time_that_the_wrapper_takes() -> None:
    wanted = Counters(3, 2, parts=1), ["begun", "next"]
    for time in (b"2026-11-26 09:00:00Z", b"2026-11-26T09:00:00 +01:00"):
        check_in_any_chunks("cri", [cri(b"be", False), cri(b"gun", True, time), cri(b"next", True)], wanted)
    for time in (b"1795683600", b"1795683600.5", b'"1795683600123"', b'"26/Nov/2026:09:00:00 +0000"'):
        check_in_any_chunks("docker", [docker(b"be", False), docker(b"gun", True, time), docker(b"next", True)], wanted)


@pytest.mark.parametrize(
    ("name", "part", "end"),
    [
        ("cri", cri(b"x", False), cri(b"y", True)),
        ("docker", docker(b"x", False), docker(b"y", True)),
    ],
)
def test_records_have_no_more_than_so_many_parts(name: str, part: bytes, end: bytes) -> None:
    good = [part] * (PARTS_MAX - 1) + [end]
    bad = [part] * (PARTS_MAX + 1) + [end]
    lines = good + bad
    for size in (150, len(lines)):
        chunks = [b"".join(lines[at : at + size]) for at in range(0, len(lines), size)]
        counters, found = in_chunks(name, *chunks)
        assert found == ["x" * (PARTS_MAX - 1) + "y", "y"]
        assert counters == Counters(2 * PARTS_MAX + 2, 2, PARTS_MAX + 1, parts=PARTS_MAX - 1)
    assert {why for _, why in parse_chunk(make_format(name), b"".join(bad), {}).rejects} == {"line_too_long"}


@pytest.mark.parametrize("stream", [rb"std\u006fut", rb"\u0073tdout", rb"stdou\u0074", rb"s\u0074d\u006Fut"])
def test_a_stream_may_be_written_with_escapes(stream: bytes) -> None:
    part, end = docker(b"be", False).replace(b"stdout", stream), docker(b"gun", True)
    for lines in (
        [part, end, docker(b"", True)],
        [docker(b"be", False), end.replace(b"stdout", stream), docker(b"", True)],
    ):
        check_in_any_chunks("docker", lines, (Counters(3, 2, parts=1), ["begun", ""]))


@pytest.mark.parametrize("wrapper", ["cri", "docker"])
def test_several_formats_may_stand_in_a_wrapper_and_be_cut_into_parts(wrapper: str) -> None:
    texts = [formats()["combined"]["samples"][1]["line"], "2026/11/26 09:00:00 [warn] 1#1: x"]
    made = cri
    if wrapper == "docker":
        made, texts = docker, [json.dumps(text)[1:-1] for text in texts]
    lines = [made(text.encode()[begin:end], end is None) for text in texts for begin, end in ((0, 30), (30, None))]
    format = make_format([f"{wrapper}+combined", f"{wrapper}+nginx-error"])
    parsed = parse_chunk(format, b"".join(lines), format.columns or {})
    assert [(row["status"] is None, row["level"]) for row in rows(parsed)] == [(False, None), (True, "warn")]
    assert parsed.counters == Counters(4, 2, parts=2)


@pytest.mark.parametrize(
    ("specs", "says"),
    [
        (["docker+combined", "combined"], "all lines stand in docker, or none does"),
        (["docker+combined", "journald+combined"], "or none does"),
        (["cri", "cri+combined"], "cri alone takes all lines"),
        (["docker+json", "docker+combined"], "json does not go together"),
        (["cri+csv", "cri+combined"], "csv does not go together"),
    ],
)
def test_formats_that_cannot_stand_in_lines_together_are_refused(specs: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make_format(specs)


@pytest.mark.parametrize("inner", ["+combined", "+json", ""])
def test_a_byte_order_mark_before_a_message_is_no_part_of_it(inner: str) -> None:
    """RFC 5424 has one before texts in UTF-8."""
    text = {"+combined": formats()["combined"]["samples"][0]["line"], "+json": '{"ts":1795683600}'}.get(inner, "text")
    head = "<14>1 2026-11-26T09:00:00Z web1 app - - - "
    format = make_format(f"syslog-5424{inner}")
    parsed = parse_chunk(format, f"{head}\ufeff{text}\n{head}{text}\n".encode(), format.columns or {})
    assert parsed.counters == Counters(2, 2)
    marked, plain = rows(parsed)
    assert marked == plain and marked.get("message", text) == text
