"""Texts that are objects themselves, and paths that lead into them."""

from __future__ import annotations

import json

import pytest

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.inference import infer_columns

COLUMNS = {"stream": SqlType.STRING, "log.status": SqlType.BIGINT, "log.u.p": SqlType.STRING, "log": SqlType.STRING}


def chunk_of(*logs: object) -> bytes:
    return "".join(
        json.dumps({"stream": "stdout", "log": log, "time": f"2026-11-26T09:00:0{n}Z"}) + "\n"
        for n, log in enumerate(logs)
    ).encode()


def test_paths_lead_into_texts() -> None:
    inner = json.dumps({"status": 200, "u": {"p": 'a"\u00e9\U0001f917'}}, indent=1) + "\n"
    chunk = chunk_of(inner, '{"status":"404"}', "plain text", None, {"status": 5}, '{"status":1,}', '{"status":"x"}')
    parsed = parse_chunk(make_format("json", time="time", unwrap="log"), chunk, COLUMNS)
    assert parsed.events["log.status"].to_list() == [200, 404, None, None, 5, None, None]
    assert parsed.events["log.u.p"].to_list() == ['a"\u00e9\U0001f917', *[None] * 6]
    assert parsed.events["log"].to_list()[:4] == [inner, '{"status":"404"}', "plain text", None]
    assert set(parsed.events["stream"]) == {"stdout"}
    assert parsed.oddities.mistyped == {"log.status": 1}


def test_a_newline_in_a_text_of_a_text_is_wrong() -> None:
    chunk = chunk_of('{"status":1,"u":{"p":"a\nb"}}', '{"status":\n1}')
    parsed = parse_chunk(make_format("json", time="time", unwrap="log"), chunk, COLUMNS)
    assert parsed.events["log.status"].to_list() == [None, 1]


def test_the_event_time_may_be_in_there() -> None:
    chunk = chunk_of('{"at":1795683600.5}', "none")
    parsed = parse_chunk(make_format("json", time="log.at", unwrap="log"), chunk, {})
    assert (parsed.events.height, [why for _, why in parsed.rejects]) == (1, ["time"])


@pytest.mark.parametrize("text", ["needle", 'nee"dle', "n\u00e9edle"])
def test_the_prefilter_finds_texts_that_are_escaped_twice(text: str) -> None:
    format = make_format("json", time="time", unwrap="log")
    for ascii_only in (True, False):
        inner = json.dumps({"u": {"p": text}}, ensure_ascii=ascii_only)
        if text == "needle":
            inner = inner.replace("n", "\\u006e")
        chunk = chunk_of(inner, '{"u":{"p":"x"}}')
        parsed = parse_chunk(format, chunk, COLUMNS, [[text]])
        assert text in parsed.events["log.u.p"].to_list() and parsed.counters.balanced


def test_types_are_found_in_there() -> None:
    inferred = infer_columns(chunk_of('{"status":1}', "plain", '{"status":2}'), ["log.status", "log", "stream"], "log")
    assert inferred.columns["log.status"] is SqlType.BIGINT
    assert inferred.columns["log"] is SqlType.STRING


def test_only_json_has_such_a_field() -> None:
    with pytest.raises(ConfigError, match="field to unwrap"):
        make_format("combined", unwrap="log")
