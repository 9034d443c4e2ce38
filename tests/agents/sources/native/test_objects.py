"""Kernels read objects, and make values of them, as their twin does."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_series_equal

from elf.agents.language.types import SqlType
from elf.agents.sources.native import DISTINCT_MAX, ObjectKernels, Spans, built_for_objects
from elf.agents.sources.objects.frames import ObjectReader, Wanted
from elf.agents.sources.objects.line import DEPTH_MAX, Why, reason
from elf.agents.sources.objects.program import compiled, decoded, encoded
from elf.agents.sources.objects.shaped import ShapedObjects
from elf.agents.sources.objects.twin import ObjectTwin
from elf.agents.sources.objects.values import scalar
from elf.agents.sources.raw_texts import UnfitValues
from elf.agents.sources.times.notations import NO_TIME
from tests.agents.sources.native.kernels import UNTOUCHED, block_of
from tests.agents.sources.native.object_lines import COLUMNS, lines

RANDOM = st.integers(0, 2**64 - 1).map(random.Random)
PROGRAM, SKIPPING = (encoded(compiled(COLUMNS, skips_blanks=each)) for each in (False, True))


def kernels() -> ObjectKernels:
    """The kernels, which `scripts/setup --test` has seen to."""
    found = built_for_objects()
    assert found is not None, "the kernels have not been built"
    return found


def read(who: ObjectKernels, data: list[bytes], program: bytes = PROGRAM) -> tuple[list[Any], ...]:
    """Read lines; returns places, whether they have escapes, and misfits."""
    block, ends = block_of(data)
    outputs = len(decoded(program).outputs)
    spans = [np.full((len(data), 2), UNTOUCHED, np.int32) for _ in range(outputs)]
    escaped, misfits = np.full(outputs, 9, np.uint8), np.full((len(data), 3), UNTOUCHED, np.int32)
    rows, unfit = who.read_objects(program, block, 0, ends, spans, escaped, misfits)
    assert rows + unfit == len(data)
    return [each[:rows].tolist() for each in spans], escaped.tolist(), misfits[:unfit].tolist()


def same(data: list[bytes], program: bytes = PROGRAM) -> tuple[list[Any], ...]:
    """Read lines by the kernels and by their twin, which have to agree."""
    found = read(kernels(), data, program)
    if found != read(ObjectTwin(), data, program):
        for line in data:
            assert read(kernels(), [line], program) == read(ObjectTwin(), [line], program), line
    assert found == read(ObjectTwin(), data, program), data
    return found


@settings(max_examples=300)
@given(RANDOM)
def test_lines_of_all_sorts(rng: random.Random) -> None:
    same(lines(rng, 12))
    same([line.replace(b"null", rng.choice((b'""', b'"-"', b'" "'))) for line in lines(rng, 3)], SKIPPING)


def test_what_is_an_object_is_what_python_takes_for_one() -> None:
    rng = random.Random(3)
    for data in (lines(rng, 1)[0] for _ in range(3_000)):
        deep = max((data[:at].count(b"[") + data[:at].count(b"{") for at in range(len(data))), default=0) > DEPTH_MAX
        try:
            is_object = isinstance(json.loads(data, parse_constant=lambda word: 1 / 0), dict)
        except (ValueError, ZeroDivisionError):
            is_object = False
        assert deep or bool(same([data])[2]) != is_object, data


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes(data: list[bytes]) -> None:
    same([line.replace(b"\n", b"").decode("utf-8", "replace").encode() for line in data])


def test_the_blocks_end_may_be_anywhere() -> None:
    """What is behind the last line is nobody's."""
    rng = random.Random(5)
    known = b'{"ts":"2026-11-26T09:00:00Z","a":{"b":{"x":[1,"\\u00e9\\ud83d\\ude00"]}},"b":[{"n":-12.5e3}],"x":null}'
    for size in range(len(known) + 1):
        found = same([known, known[:size]])
        assert len(found[2]) == (size < len(known))
        same([known[size:]])
        same([known, b"{}", known[: len(known) - size], b'{"a":1}'])
    for _ in range(200):
        data = lines(rng, 1)[0]
        for size in range(max(0, len(data) - 70), len(data)):
            same([data[:size].decode("utf-8", "replace").encode()])


@pytest.mark.parametrize(
    ("line", "why", "at"),
    [
        (b"", Why.END, 0),
        (b"[1]", Why.OBJECT, 0),
        (b'{"a":1', Why.END, 6),
        (b'{"a":1,}', Why.NAME, 7),
        (b"{'a':1}", Why.NAME, 1),
        (b'{"a" 1}', Why.COLON, 5),
        (b'{"a":NaN}', Why.VALUE, 5),
        (b'{"a":-x}', Why.NUMBER, 6),
        (b'{"a":01}', Why.COMMA, 6),
        (b'{"x":"a\x01"}', Why.TEXT, 7),
        (b'{"x":"\\q"}', Why.ESCAPE, 7),
        (b'{"x":"\\u12g4"}', Why.ESCAPE, 10),
        (b'{"a":1} {"a":2}', Why.MORE, 8),
        (b'{"x":' + b"[" * 201 + b"]" * 201 + b"}", Why.DEPTH, 205),
    ],
)
def test_where_lines_stop_to_be_objects(line: bytes, why: Why, at: int) -> None:
    assert same([line])[2] == [[0, why, at]]
    assert reason(why, at).endswith(f"(byte {at})")


def test_paths() -> None:
    data = [
        b'{"a":{"b":1},"a.b":2}',
        b'{"a.b":null,"a":{"b":1}}',
        b'{"a":{"b":1},"a":{"c":2}}',
        b'{"a":{"b":{"x":[0,{"y":1}]}},"b":[{"n":"z"}]}',
        b'{"a":[1],"b":{"0":1}}',
    ]
    found = same(data, encoded(compiled(["a.b", "a.b.x[1]", "b[0].n", "a"])))
    block, _ = block_of(data)
    texts = [[block[begin:end] if begin >= 0 else None for begin, end in each] for each in found[0]]
    assert texts[0] == [b"2", None, None, b'{"x":[0,{"y":1}]}', None]
    assert texts[1] == [None, None, None, b'{"y":1}', None]
    assert texts[2] == [None, None, None, b'"z"', None]
    assert texts[3] == [b'{"b":1}', b'{"b":1}', b'{"c":2}', b'{"b":{"x":[0,{"y":1}]}}', b"[1]"]


def _values(who: ObjectKernels, block: bytes, spans: Spans) -> list[Any]:
    """Everything that kernels make of values."""
    rows, found = len(spans), list[Any]()
    valid, bits = np.empty((rows + 7) // 8, np.uint8), np.empty((rows + 7) // 8, np.uint8)
    for size in (32, 64):
        integers = np.empty(rows, np.int64)
        found.append((who.object_integers(block, spans, size, integers, valid), integers.tolist(), valid.tolist()))
    doubles = np.empty(rows, np.float64)
    unfit = who.object_decimals(block, spans, doubles, valid)
    found.append((unfit, [(x, math.copysign(1, x)) for x in doubles.tolist()], valid.tolist()))
    found.append((who.object_booleans(block, spans, bits, valid), bits.tolist(), valid.tolist()))
    offsets = np.empty(rows + 1, np.int64)
    found.append((who.object_texts(block, spans, True, offsets, valid), offsets.tolist(), valid.tolist()))
    codes, firsts = np.empty(rows, np.uint32), np.zeros((DISTINCT_MAX, 2), np.int32)
    found.append(
        (who.object_codes(block, spans, codes, firsts, valid), codes.tolist(), firsts.tolist(), valid.tolist())
    )
    return found


@settings(max_examples=200)
@given(RANDOM)
def test_values_of_all_sorts(rng: random.Random) -> None:
    data = lines(rng, 30)
    block, ends = block_of(data)
    spans = [np.empty((len(data), 2), np.int32) for _ in COLUMNS]
    escaped, misfits = np.empty(len(COLUMNS), np.uint8), np.empty((len(data), 3), np.int32)
    rows, _ = kernels().read_objects(PROGRAM, block, 0, ends, spans, escaped, misfits)
    for each in spans:
        own = each[:rows].copy()
        assert _values(kernels(), block, own) == _values(ObjectTwin(), block, own)


@settings(max_examples=200)
@given(RANDOM)
def test_event_times(rng: random.Random) -> None:
    """What the kernel leaves, Python reads: together they are the twin."""
    data = lines(rng, 30)
    block, ends = block_of(data)
    found, expected = (
        ObjectReader(Wanted("ts", {}), who).read(block, 0, ends, _iso).times for who in (kernels(), ObjectTwin())
    )
    assert found.tolist() == expected.tolist()


def _iso(values: Any) -> Any:
    from elf.agents.sources.json_lines import iso_times

    return iso_times(values)


def test_seconds_with_many_decimals_are_those_of_a_double() -> None:
    rng = random.Random(8)
    texts = [f"{rng.randint(0, 2**31)}.{rng.randint(0, 10**9):09}" for _ in range(20_000)]
    texts += [
        f"{rng.randint(0, 2**31)}.{rng.randint(0, 999):03}{tail}"
        for tail in ("000001", "999999", "0000005")
        for _ in range(999)
    ]
    block, ends = block_of([b'{"ts":%s}' % text.encode() for text in texts])
    times = ObjectReader(Wanted("ts", {}), kernels()).read(block, 0, ends, _iso).times
    assert times.tolist() == _iso([scalar(text.encode()) for text in texts]).tolist()
    assert (times != NO_TIME).all()


@settings(max_examples=100)
@given(RANDOM)
def test_places_that_are_none_are_refused_or_read(rng: random.Random) -> None:
    """Whatever places say, no byte outside of the block is looked at, and nothing breaks."""
    block, _ = block_of(lines(rng, 3))
    spans = np.array([[rng.randint(-1, len(block)), rng.randint(0, len(block) + 2)] for _ in range(6)], np.int32)
    try:
        _values(kernels(), block, spans)
        kernels().object_times(block, spans, np.empty(6, np.int64))
    except ValueError as error:
        assert "outside" in str(error) or "changed" in str(error)


@settings(max_examples=200)
@given(RANDOM)
def test_programs_that_are_none_are_refused_or_run(rng: random.Random) -> None:
    program = bytearray(PROGRAM)
    for _ in range(rng.randint(1, 4)):
        program[rng.randrange(len(program))] = rng.choice((0, 1, 2, 255, rng.randrange(256)))
    program = program[: rng.choice((len(program), len(program), rng.randint(0, len(program))))]
    data = lines(rng, 3)
    block, ends = block_of(data)
    spans = [np.empty((3, 2), np.int32) for _ in COLUMNS]
    escaped, misfits = np.empty(len(COLUMNS), np.uint8), np.empty((3, 3), np.int32)
    try:
        kernels().read_objects(bytes(program), block, 0, ends, spans, escaped, misfits)
    except ValueError as error:
        assert "not a program" in str(error)


def test_arguments_that_do_not_fit_together() -> None:
    block, ends = block_of([b'{"ts":1}'] * 3)
    spans = [np.empty((3, 2), np.int32) for _ in COLUMNS]
    fitting: list[Any] = [PROGRAM, block, 0, ends, spans, np.empty(len(COLUMNS), np.uint8), np.empty((3, 3), np.int32)]
    assert kernels().read_objects(*fitting) == (3, 0)
    wrong: list[tuple[int, Any]] = [
        *((0, b""), (0, PROGRAM + b"\0"), (1, block[:-1]), (2, -1), (2, 10), (3, ends + 1), (3, ends[::-1].copy())),
        *((4, spans[1:]), (4, [np.empty((2, 2), np.int32)] * len(COLUMNS)), (5, np.empty(2, np.uint8))),
        (6, np.empty((3, 2), np.int32)),
    ]
    for place, argument in wrong:
        with pytest.raises((ValueError, BufferError), match=r"\w"):
            kernels().read_objects(*[*fitting[:place], argument, *fitting[place + 1 :]])


def listed(unfit: Mapping[str, UnfitValues]) -> dict[str, Any]:
    """Values that do not fit, as what can be compared."""
    return {name: (each.rows.tolist(), each.texts.to_list()) for name, each in unfit.items() if each.texts is not None}


TYPED = dict(zip(COLUMNS, (*SqlType, SqlType.STRING, SqlType.DOUBLE), strict=False))


def alike(rng: random.Random) -> list[bytes]:
    """Draw lines of a few shapes, some of which are broken."""
    found = []
    for line in lines(rng, rng.choice((1, 2, 3, 5))):
        found += [line] * rng.choice((1, 3, 9))
        found += [
            line.replace(b"1", rng.choice((b"2", b"77", b"null", b"x", b'""'))) for _ in range(rng.choice((0, 4)))
        ]
    rng.shuffle(found)
    return found


@settings(max_examples=150)
@given(RANDOM)
def test_lines_read_by_their_shapes_are_as_by_the_twin(rng: random.Random) -> None:
    data, program = alike(rng), rng.choice((PROGRAM, SKIPPING))
    who = ShapedObjects(lines_min=2)
    for _ in range(2):  # new shapes, and known ones
        assert read(who, data, program) == read(ObjectTwin(), data, program)
    block, ends = block_of(data)
    wanted = Wanted("ts", TYPED, unwrap=rng.choice(("", "a")))
    one, other = (ObjectReader(wanted, each).read(block, 0, ends, _iso) for each in (who, ObjectTwin()))
    for mine, yours in zip(one.columns, other.columns, strict=True):
        assert_series_equal(mine, yours)
    assert one.times.tolist() == other.times.tolist() and listed(one.mistyped) == listed(other.mistyped)


@pytest.mark.parametrize("members", [3, 15, 16, 17, 40])
def test_lines_of_one_writer_need_no_twin(members: int, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = ", ".join(f'"k{at}": "é\\u00e9{at}"' for at in range(members))
    data = [f'{{"ts":{at},"a":{{"x":[{at},"b"],{inner}}},"n":-{at}.5e3,"é":null}}\r'.encode() for at in range(100)]
    expected = read(ObjectTwin(), data)
    monkeypatch.setattr(ObjectTwin, "read_objects", None)
    assert read(ShapedObjects(), data) == expected


@settings(max_examples=100)
@given(RANDOM)
def test_columns_of_all_types(rng: random.Random) -> None:
    data = lines(rng, rng.choice((3, 30, 600)))
    block, ends = block_of(data)
    unwrap = rng.choice(("", "a"))
    found, expected = (
        ObjectReader(Wanted("ts", TYPED, unwrap=unwrap), who).read(block, 0, ends, _iso)
        for who in (kernels(), ObjectTwin())
    )
    for one, other in zip(found.columns, expected.columns, strict=True):
        assert_series_equal(one, other)
    assert listed(found.mistyped) == listed(expected.mistyped)
    assert (found.times.tolist(), found.misfits.tolist()) == (expected.times.tolist(), expected.misfits.tolist())
