"""What kernels and their twin both do, on lines drawn from a source of randomness: they have to come to the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cache

from polars.testing import assert_series_equal

from elf.agents.sources.catalogue import LAYOUTS
from elf.agents.sources.layouts.frames import Reader
from elf.agents.sources.layouts.pasted import pasted
from elf.agents.sources.layouts.shaped import ShapedLines
from elf.agents.sources.layouts.twin import Twin
from elf.agents.sources.objects.frames import ObjectReader, Wanted
from elf.agents.sources.objects.shaped import ShapedObjects
from elf.agents.sources.objects.twin import ObjectTwin
from elf.agents.sources.pairs.line import Style
from tests.agents.sources.format_files import layouts, sample_lines
from tests.agents.sources.native import object_lines, test_objects, test_pairs
from tests.agents.sources.native.damage import damaged
from tests.agents.sources.native.grammars import ODD, line_of
from tests.agents.sources.native.kernels import apart, block_of, built
from tests.fuzz import lines as fuzzed

#: Lines of one piece of work.
LINES = 100


def formats(rng: random.Random) -> int:
    """Lines of the formats with layouts, good and damaged, taken apart."""
    every = _formats()
    data = every.draw([], rng)
    every.feed(data)
    return len(fuzzed.lines_of(data[2:]))


def drawn_layouts(rng: random.Random) -> int:
    """Lines of layouts that nobody has, taken apart."""
    fuzzed.feed_drawn(rng.randbytes(8))
    return 2 * fuzzed._DRAWN


def columns(rng: random.Random) -> int:
    """Lines of a format as typed columns."""
    name = rng.choice(list(LAYOUTS))
    readers, tokens, own = _readers(name)
    pool = [*own, *(line_of(rng.choice(tokens), rng) for _ in range(LINES // 4))]
    texts = [line.replace("\n", " ") for line in pool]
    texts += [damaged(texts, rng) for _ in range(LINES - len(texts))]
    block, ends = block_of([line.encode() for line in texts])
    one, other = (reader.read(block, ends, readers[0].columns) for reader in readers)
    for mine, yours in zip(one.columns, other.columns, strict=True):
        assert_series_equal(mine, yours)
    assert one.times.tolist() == other.times.tolist() and one.misfits.tolist() == other.misfits.tolist()
    assert test_objects.listed(one.mistyped) == test_objects.listed(other.mistyped)
    return len(texts)


def values(rng: random.Random) -> int:
    """Numbers, requests and addresses."""
    data = fuzzed.damaged_texts([], rng)
    fuzzed.feed_values(data)
    return len(fuzzed.lines_of(data))


def objects(rng: random.Random) -> int:
    """Lines that are objects, or nearly."""
    data = object_lines.lines(rng, LINES)
    test_objects.same(data, rng.choice((test_objects.PROGRAM, test_objects.SKIPPING)))
    return len(data)


def object_columns(rng: random.Random) -> int:
    """Objects as typed columns."""
    data = object_lines.lines(rng, LINES)
    block, ends = block_of(data)
    wanted = Wanted("ts", test_objects.TYPED, unwrap=rng.choice(("", "a")))
    readers = ObjectReader(wanted), ObjectReader(wanted, ObjectTwin())
    one, other = (reader.read(block, 0, ends, test_objects._iso) for reader in readers)
    for mine, yours in zip(one.columns, other.columns, strict=True):
        assert_series_equal(mine, yours)
    assert one.times.tolist() == other.times.tolist() and one.misfits.tolist() == other.misfits.tolist()
    assert test_objects.listed(one.mistyped) == test_objects.listed(other.mistyped)
    return len(data)


def pairs(rng: random.Random) -> int:
    """Lines of names and values."""
    style = rng.choice(list(Style))
    lines = [test_pairs.line_of(style, rng) for _ in range(LINES // 3)]
    lines += [damaged([*lines, *sample_lines()], rng) for _ in range(LINES // 2)]
    lines += ["".join(rng.choices(ODD, k=rng.randint(0, 30))) for _ in range(LINES - len(lines))]
    texts = [line.replace("\n", " ").encode() for line in lines]
    assert test_pairs.apart(built(), style, texts) == test_pairs.apart(Twin(), style, texts)
    return len(texts)


def shaped_objects(rng: random.Random) -> int:
    """Objects by their shapes, as where there are no kernels."""
    data, program = test_objects.alike(rng), rng.choice((test_objects.PROGRAM, test_objects.SKIPPING))
    found = test_objects.read(ShapedObjects(lines_min=2), data, program)
    assert found == test_objects.read(ObjectTwin(), data, program)
    return len(data)


def shaped_lines(rng: random.Random) -> int:
    """Lines of the formats with layouts, as where there are no kernels."""
    programs, outputs, pool = rng.choice(_formats().all)
    good = [line.replace("\n", " ") for line in pool]
    lines = [(rng.choice(good) if rng.random() < 0.5 else damaged(good, rng)).encode() for _ in range(LINES)]
    assert apart(ShapedLines(lines_min=2), programs, outputs, lines) == apart(Twin(), programs, outputs, lines)
    return len(lines)


_ALL = (formats, drawn_layouts, columns, values, objects, object_columns, shaped_objects, shaped_lines, pairs)
WORK: Mapping[str, Callable[[random.Random], int]] = {work.__name__: work for work in _ALL}


@cache
def _formats() -> fuzzed.Formats:
    return fuzzed.Formats()


@cache
def _readers(name: str) -> tuple[tuple[Reader, Reader], list[object], list[str]]:
    found = [pasted(text) for text in LAYOUTS[name].layouts]
    absolute = LAYOUTS[name].absolute
    readers = Reader(found, absolute=absolute), Reader(found, absolute=absolute, kernels=Twin())
    samples = [sample["line"] for sample in layouts().get(name, {"samples": []})["samples"]]
    return readers, [layout.tokens for layout in found], samples
