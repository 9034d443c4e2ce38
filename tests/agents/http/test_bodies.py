"""Decompression stops at its limits: bombs, cut and mixed streams. Arrays become lines."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.http import bodies
from elf.agents.http.bodies import MEMBERS_MAX, RATIO_FREE_BYTES, RATIO_MAX, gunzip, lines_of_json
from elf.agents.http.problems import RefusedError

MIB = 1 << 20


@given(st.lists(st.binary(max_size=2000), max_size=5))
def test_members_come_back_whole(parts: list[bytes]) -> None:
    assert gunzip(b"".join(map(gzip.compress, parts)), MIB) == b"".join(parts)


@given(st.binary(max_size=300))
def test_any_bytes_come_back_or_are_refused(raw: bytes) -> None:
    try:
        gunzip(raw, MIB)
    except RefusedError as error:
        assert error.response.status in (400, 413)


def test_a_bomb_is_stopped_before_it_fills_memory() -> None:
    bomb = gzip.compress(bytes(200 * MIB), 9)
    tracemalloc.start()
    try:
        with pytest.raises(RefusedError) as caught:
            gunzip(bomb, 16 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 24 * MIB
    finally:
        tracemalloc.stop()
    assert caught.value.response.status == 413


def test_the_ratio_is_bounded_below_the_size_limit() -> None:
    size = 2 * RATIO_FREE_BYTES
    packed = gzip.compress(bytes(size), 9)
    assert size > RATIO_MAX * len(packed)
    with pytest.raises(RefusedError) as caught:
        gunzip(packed, 64 * MIB)
    assert caught.value.response.status == 413
    assert len(gunzip(gzip.compress(bytes(RATIO_FREE_BYTES)), 64 * MIB)) == RATIO_FREE_BYTES


CUT, TRAILED = gzip.compress(b"x" * 1000, mtime=0)[:-9], gzip.compress(b"x", mtime=0) + b"trailing"


@pytest.mark.parametrize("raw", [b"plain text", CUT, TRAILED], ids=["plain", "cut", "trailed"])
def test_broken_gzip(raw: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        gunzip(raw, MIB)
    assert caught.value.response.status == 400


def test_too_many_members() -> None:
    with pytest.raises(RefusedError):
        gunzip(gzip.compress(b"") * (MEMBERS_MAX + 1), MIB)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=3)
LINE_ENDS = st.sampled_from(["\n", "\r\n"])


@given(st.lists(OBJECTS, max_size=5), st.sampled_from([None, 0, 2]), LINE_ENDS, st.booleans())
def test_an_array_is_its_objects(objects: list[dict[str, object]], indent: int | None, end: str, ascii: bool) -> None:
    text = json.dumps(objects, indent=indent, ensure_ascii=ascii).replace("\n", end)
    for body in (text, f"{end} {text}{end}", f"\ufeff{text}"):
        lines = lines_of_json(body.encode()).split(b"\n") if objects else []
        assert [json.loads(line) for line in lines] == objects


@given(OBJECTS, LINE_ENDS)
def test_an_object_is_one_line_and_lines_are_lines(value: dict[str, object], end: str) -> None:
    body = json.dumps(value, indent=2).replace("\n", end).encode()
    line = lines_of_json(body)
    assert b"\n" not in line and json.loads(line) == value
    lines = b"".join(json.dumps(value).encode() + end.encode() for _ in range(3))
    assert lines_of_json(lines) == lines


@given(st.binary(max_size=60) | st.text('[]{},: \n1"', max_size=20).map(str.encode))
def test_any_json_body_is_lines_or_refused(body: bytes) -> None:
    try:
        lines = lines_of_json(body)
    except RefusedError as error:
        assert error.response.status == 400 and body.removeprefix(b"\xef\xbb\xbf").strip().startswith(b"[")
        return
    # Whoever sent an array may trust the answer: so many events.
    assert lines == body or all(
        isinstance(json.loads(line.decode(errors="replace")), dict) for line in lines.splitlines()
    )


@pytest.mark.parametrize(
    "body", [b"[1]", b"[{}, null]", b'[{"a": 1}', b"[{}] {}", b"[{}]\n[{}]", b"[" * 9_999, b"[{},]"]
)
def test_what_begins_as_an_array_and_is_none_of_objects_is_refused(body: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        lines_of_json(body)
    assert caught.value.response.status == 400


def test_an_array_of_too_many_objects_is_refused_before_it_takes_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "OBJECTS_MAX", 3)
    assert lines_of_json(b"[{},{},{}]").count(b"{") == 3
    with pytest.raises(RefusedError) as caught:
        lines_of_json(b"[{},{},{},{}]")
    assert caught.value.response.status == 413
