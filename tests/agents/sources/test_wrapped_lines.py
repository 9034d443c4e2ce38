"""Lines in wrappers: container runtimes' logs and the journal, whole and in parts."""

from __future__ import annotations

from itertools import pairwise

import pytest

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


@pytest.mark.parametrize("time", [b"x", b"2026", b"2026-13-26T09:00:00Z", b"1795683600", b"2026-11-26T09:00:00Zx"])
def test_a_line_that_the_wrapper_rejects_ends_no_record_in_any_chunks(time: bytes) -> None:
    good = b"2026-11-26T09:00:00.123456789Z stdout "
    lines = [good + b"P be\n", time + b" stdout F torn\n", good + b"F gun\n"]
    wanted = Counters(3, 1, 1, parts=1), ["begun"]
    for cuts in ([0, 3], [0, 1, 3], [0, 2, 3], [0, 1, 2, 3]):
        chunks = [b"".join(lines[begin:end]) for begin, end in pairwise(cuts)]
        assert in_chunks("cri", *chunks) == wanted


@pytest.mark.parametrize(
    ("name", "part", "end"),
    [
        ("cri", b"2026-11-26T09:00:00Z stdout P x\n", b"2026-11-26T09:00:00Z stdout F y\n"),
        (
            "docker",
            b'{"log":"x","stream":"stdout","time":"2026-11-26T09:00:00Z"}\n',
            b'{"log":"y\\n","stream":"stdout","time":"2026-11-26T09:00:00Z"}\n',
        ),
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
