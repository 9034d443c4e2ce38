"""What kernels and their twin both do, on lines drawn from a source of randomness: they have to come to the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from polars.testing import assert_series_equal

from elf.agents.sources import lines as sources_lines
from elf.agents.sources.catalogue import LAYOUTS
from elf.agents.sources.headed.records import RECORD_LINES_MAX, records
from elf.agents.sources.layouts.frames import Reader
from elf.agents.sources.layouts.pasted import pasted
from elf.agents.sources.layouts.shaped import ShapedLines
from elf.agents.sources.layouts.twin import Twin
from elf.agents.sources.lines import LINE_BYTES_MAX, line_ends
from elf.agents.sources.native import built_for_records, built_for_sweeps
from elf.agents.sources.objects.frames import ObjectReader, Wanted
from elf.agents.sources.objects.shaped import ShapedObjects
from elf.agents.sources.objects.twin import ObjectTwin
from elf.agents.sources.pairs.line import Style
from tests.agents.sources import headed_texts
from tests.agents.sources.format_files import layouts, sample_lines
from tests.agents.sources.native import object_lines, test_objects, test_pairs
from tests.agents.sources.native.damage import damaged
from tests.agents.sources.native.grammars import ODD, line_of
from tests.agents.sources.native.kernels import apart, block_of, built
from tests.fuzz import lines as fuzzed

#: Lines of one piece of work.
LINES = 100
#: What decides where records of CSV end, and what makes chunks of lines odd.
_OF_RECORDS = (b'"', b'""', b",", b"\n", b"a", b"\t", b"\xff", b'",', b'\n"', b',"', b'",\n', b'"\n')
_OF_CHUNKS = (
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xef",
    b"\t",
    b"\x0b",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
    b"\xff",
)
_ABOUT = (-1, 0, 1)


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


def csv_records(rng: random.Random) -> int:
    """Lines of CSV, of which those of a value between quotes are one record."""
    kind = rng.choice([kind for kind in headed_texts.KINDS if kind.format not in ("w3c", "cloudfront")])
    written = headed_texts.text_of(kind, rng, rows=LINES // 3).replace(b"\r\n", b"\n").splitlines(keepends=True)
    pieces = [rng.choice(written) if rng.random() < 0.5 else rng.choice(_OF_RECORDS) for _ in range(LINES)]
    if rng.random() < 0.1:
        pieces.insert(rng.randrange(len(pieces)), b"\n" * (RECORD_LINES_MAX + rng.choice(_ABOUT) - rng.randrange(3)))
    if rng.random() < 0.01:
        pieces.insert(rng.randrange(len(pieces)), b"x" * (LINE_BYTES_MAX + rng.choice(_ABOUT) - rng.randrange(64)))
    data, separator = b"".join(pieces) + b"\n", rng.choice((b",", b"\t"))
    ends = line_ends(data)
    (one, mine), (other, yours) = (records(data, ends, separator, kernels) for kernels in (built_for_records(), None))
    assert one.tolist() == other.tolist() and mine == yours
    return len(ends)


def chunks(rng: random.Random) -> int:
    """Chunks of lines as a whole: where they end, whether they are plain, and valid UTF-8."""
    lines = [rng.choice(sample_lines()).encode() + b"\n" for _ in range(LINES)]
    for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
        place = rng.randrange(len(lines))
        at = rng.choice((0, rng.randrange(len(lines[place])), len(lines[place]) - 1))
        lines[place] = lines[place][:at] + rng.choice(_OF_CHUNKS) + lines[place][at:]
    if rng.random() < 0.01:
        lines.insert(rng.randrange(LINES), b"x" * (LINE_BYTES_MAX + rng.choice(_ABOUT)) + b"\n")
    data, kernels = b"".join(lines), built_for_sweeps()
    assert kernels is not None
    ends, is_plain, is_utf8 = sources_lines._swept(kernels, data)
    places = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    few = sources_lines._places(data, sources_lines._LAST_ODD, b"\n")
    assert ends.tolist() == places.tolist()
    assert is_plain == (few is not None and sources_lines._are_plain(data, few))
    assert is_utf8 == kernels.is_utf8(data) == (data.decode(errors="replace").encode() == data)
    return len(ends)


_OF_LINES = (formats, drawn_layouts, columns, shaped_lines)
_OF_OBJECTS = (objects, object_columns, shaped_objects)
_ALL = (*_OF_LINES, values, *_OF_OBJECTS, pairs, csv_records, chunks)
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
