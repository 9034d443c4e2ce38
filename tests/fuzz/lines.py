"""Lines of logs, their values, and programs that take lines apart: the kernels in C give what their twin gives."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from elf.agents.sources.catalogue import LAYOUTS, WRAPPERS
from elf.agents.sources.layouts.layout import Layout
from elf.agents.sources.layouts.pasted import pasted, wrapped
from elf.agents.sources.layouts.program import compiled
from elf.agents.sources.layouts.twin import Twin
from elf.agents.sources.native import Kernels, Spans
from tests.agents.sources.format_files import formats, layouts
from tests.agents.sources.native.damage import damaged
from tests.agents.sources.native.grammars import layout_of, line_of
from tests.agents.sources.native.kernels import all_outputs, apart, built, same_apart

#: Lines of one input; what is behind is left out.
LINES = 100
_BYTES = 1 << 13
#: Of layouts that are drawn, too, which costs more than their lines.
_DRAWN = 20
_TEXTS = (
    "GET /a?b=c HTTP/1.1",
    "http://a.example:80/b?c",
    "192.0.2.1:443",
    "0.25",
    "-1.5e-7",
    "9223372036854775807",
    "25ms",
)
_NUMBERS = (
    (re.compile(rb"-|[+-]?[0-9]+"), "integers", np.int64),
    (re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"), "decimals", np.float64),
    (re.compile(rb"[+-]?[0-9]+(?:\.[0-9]+)?(?:ns|us|\xc2\xb5s|\xce\xbcs|ms|s|m|h)?"), "durations", np.float64),
)


def programs_of_all() -> list[tuple[list[bytes], int, list[str]]]:
    """Return of each format its programs, how many outputs they have, and lines that fit or nearly do."""
    named = {name: [pasted(text) for text in each.layouts] for name, each in LAYOUTS.items()}
    inner = [layout for name in ("traefik", "combined") for layout in named[name]]
    named |= {name: wrapped(pasted(text), inner) for name, text in WRAPPERS.items()}
    rng = random.Random(1)
    known = {name: [sample["line"] for sample in entry["samples"]] for name, entry in layouts().items()}
    return [_of_layouts(found, known.get(name, []), rng) for name, found in named.items()]


def _of_layouts(found: Sequence[Layout], lines: list[str], rng: random.Random) -> tuple[list[bytes], int, list[str]]:
    drawn = [line_of(rng.choice(found).tokens, rng) for _ in range(20)]
    return *all_outputs([compiled(layout) for layout in found]), [*lines * 5, *drawn]


def damaged_lines(number: int, own: Sequence[str], samples: Sequence[bytes], rng: random.Random) -> bytes:
    """Draw lines of a format, of which most are damaged; the first two bytes say which format."""
    strange = [line for entry in rng.sample(list(formats().values()), 3) for line in entry["refused"]]
    pool = [line.replace("\n", " ") for line in (*own, *own, *strange)]
    return number.to_bytes(2) + "\n".join(damaged(pool, rng) for _ in range(LINES)).encode()


def lines_of(data: bytes) -> list[bytes]:
    """Return the lines of an input as sources have them: valid UTF-8, and not too many."""
    return data[:_BYTES].decode(errors="replace").encode().split(b"\n")[:LINES]


class Formats:
    """All formats, and layouts that none has: which one an input is for, its first bytes say."""

    def __init__(self) -> None:
        self.all = programs_of_all()

    def feed(self, data: bytes) -> None:
        """Take lines apart by kernels and twin."""
        programs, outputs, _ = self.all[int.from_bytes(data[:2]) % len(self.all)]
        same_apart(programs, outputs, lines_of(data[2:]))

    def draw(self, samples: Sequence[bytes], rng: random.Random) -> bytes:
        """Draw damaged lines of any format."""
        number = rng.randrange(len(self.all))
        return damaged_lines(number, self.all[number][2], samples, rng)

    def samples(self) -> list[bytes]:
        """Return lines of each format."""
        return [number.to_bytes(2) + "\n".join(lines).encode() for number, (*_, lines) in enumerate(self.all)]


def feed_drawn(data: bytes) -> None:
    """Draw layouts, and lines for them, from a seed, which the input is."""
    rng = random.Random(data)
    found = [layout_of(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
    pool = [line_of(rng.choice(found).tokens, rng).replace("\n", " ") for _ in range(_DRAWN)]
    lines = [*pool, *(damaged(pool, rng) for _ in range(_DRAWN))]
    same_apart(*all_outputs([compiled(layout) for layout in found]), [line.encode() for line in lines])


def feed_program(lines: Sequence[bytes], outputs: int, data: bytes) -> None:
    """Run a program that was damaged; raises ValueError if it is refused."""
    found = apart(built(), [data], outputs, lines)
    try:
        assert found == apart(Twin(), [data], outputs, lines)
    except UnicodeDecodeError:
        # A literal of a time's notation that is no text; kernels compare bytes.
        return


def feed_values(data: bytes) -> None:
    """Make numbers, requests and addresses of lines, and gather them."""
    texts = lines_of(data)
    block = b"".join(texts)
    ends = np.cumsum([len(text) for text in texts], dtype=np.int32)
    spans = np.stack([ends - np.array([len(text) for text in texts], np.int32), ends], axis=1)
    assert list(_parts(built(), block, spans)) == list(_parts(Twin(), block, spans))
    for pattern, name, dtype in _NUMBERS:
        chosen = np.array([pattern.fullmatch(text) is not None for text in texts], np.bool_)
        fitting = np.where(chosen[:, None], spans, -1).astype(np.int32)
        results = []
        for kernels in (built(), Twin()):
            out, valid = np.zeros(len(texts), dtype), np.zeros((len(texts) + 7) // 8, np.uint8)
            read = kernels.integers if name == "integers" else partial(_decimals, kernels, name == "durations")
            results.append((read(block, fitting, out, valid), out.tobytes(), valid.tobytes()))
        assert results[0] == results[1], name


def _decimals(kernels: Kernels, durations: bool, block: bytes, spans: Spans, out: np.ndarray, valid: np.ndarray) -> int:
    return kernels.decimals(block, spans, durations, out, valid)


def _parts(kernels: Kernels, block: bytes, spans: Spans) -> Iterator[object]:
    for count, read in ((3, kernels.requests), (2, partial(_uris, kernels)), (3, kernels.uris)):
        parts = [np.zeros(spans.shape, np.int32) for _ in range(count)]
        read(block, spans, *parts)
        yield [part.tolist() for part in parts]
    offsets, valid = np.zeros(len(spans) + 1, np.int64), np.zeros((len(spans) + 7) // 8, np.uint8)
    yield kernels.gather(block, spans, offsets, valid)
    yield offsets.tolist(), valid.tolist()


def _uris(kernels: Kernels, block: bytes, spans: Spans, path: Spans, query: Spans) -> None:
    kernels.uris(block, spans, path, query, None)


def damaged_texts(samples: Sequence[bytes], rng: random.Random) -> bytes:
    """Draw texts, of which most are damaged."""
    return "\n".join(damaged(_TEXTS, rng) for _ in range(LINES)).encode()


def damaged_seed(samples: Sequence[bytes], rng: random.Random) -> bytes:
    """Draw a seed."""
    return rng.randbytes(8)


def program_samples() -> tuple[list[bytes], Callable[[bytes], None]]:
    """Return a program, and what runs it over lines that fit it and lines that do not."""
    text = '{a:ip} [{ts:time:clf|iso}] {?*{b:int} ?}"{c:loose}" {u:user} {a:ip} {d:numbers}'
    layout = pasted(text)
    rng = random.Random(2)
    programs, outputs = all_outputs([compiled(layout)])
    lines = [line_of(layout.tokens, rng).replace("\n", " ").encode() for _ in range(20)]
    return programs, partial(feed_program, lines, outputs)
