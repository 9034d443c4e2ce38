"""Lines in wrappers: container runtimes' logs and the journal, whole and in parts."""

from __future__ import annotations

import pytest

from elf.agents.language.types import SqlType
from elf.agents.sources.counters import Counters
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.inference import infer
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
