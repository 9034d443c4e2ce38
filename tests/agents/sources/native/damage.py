"""Lines of logs damaged as logs are: cut, glued, spliced, with fields that are missing, double or swapped."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.agents.sources.native.grammars import ODD


def damaged(lines: Sequence[str], rng: random.Random) -> str:
    """Return one of some lines, damaged once or twice; none has a newline."""
    line = rng.choice(lines)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        line = rng.choice(_DAMAGES)(line, rng.choice(lines), rng)
    return line.replace("\n", " ")


def _words(line: str, rng: random.Random, change: Callable[[list[str], int], None]) -> str:
    words = line.split(" ")
    change(words, rng.randrange(len(words)))
    return " ".join(words)


def _drop(line: str, other: str, rng: random.Random) -> str:
    return _words(line, rng, lambda words, at: words.__delitem__(at))


def _double(line: str, other: str, rng: random.Random) -> str:
    return _words(line, rng, lambda words, at: words.insert(at, words[at]))


def _swap(line: str, other: str, rng: random.Random) -> str:
    def swap(words: list[str], at: int) -> None:
        with_at = rng.randrange(len(words))
        words[at], words[with_at] = words[with_at], words[at]

    return _words(line, rng, swap)


def _take(line: str, other: str, rng: random.Random) -> str:
    """A word of another line at the place of one of this."""
    return _words(line, rng, lambda words, at: words.__setitem__(at, rng.choice(other.split(" "))))


def _glue(line: str, other: str, rng: random.Random) -> str:
    return line + rng.choice(("", " ", "\r")) + other


def _cut(line: str, other: str, rng: random.Random) -> str:
    return line[: rng.randint(0, len(line))]


def _behead(line: str, other: str, rng: random.Random) -> str:
    return line[rng.randint(0, len(line)) :]


def _splice(line: str, other: str, rng: random.Random) -> str:
    return line[: rng.randint(0, len(line))] + other[rng.randint(0, len(other)) :]


def _set(line: str, other: str, rng: random.Random) -> str:
    at = rng.randint(0, len(line))
    return line[:at] + rng.choice(ODD) + line[at + rng.choice((0, 1)) :]


def _repeat(line: str, other: str, rng: random.Random) -> str:
    at = rng.randint(0, len(line))
    end = at + rng.choice((1, 2, 5, 40))
    return line[:at] + line[at:end] * rng.choice((2, 3, 20)) + line[end:]


_DAMAGES: tuple[Callable[[str, str, random.Random], str], ...] = (
    _drop,
    _double,
    _swap,
    _take,
    _glue,
    _cut,
    _behead,
    _splice,
    _set,
    _set,
    _set,
    _repeat,
)
