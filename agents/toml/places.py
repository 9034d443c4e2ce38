"""Where in a TOML text each key and value stands, which `tomllib` does not tell. Pure.

The text must have parsed already: this scanner finds places, it does not check syntax.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

Path = tuple[str, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)+")
_SCALAR = re.compile(r"[^\s,\]}#]+(?: \d\d:[^\s,\]}#]+)?")
_QUOTES = ('"""', "'''", '"', "'")


@dataclass(frozen=True, slots=True)
class Place:
    """A 1-based line and column, counted in characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Places:
    """The places of all keys and values of a text, by path; list items have their index as text in the path."""

    keys: dict[Path, Place]
    values: dict[Path, Place]

    def key(self, path: Path) -> Place:
        """Return where a key stands; of one that is not written, the nearest table around it, or the beginning."""
        while path and path not in self.keys:
            path = path[:-1]
        return self.keys.get(path, Place(1, 1))

    def value(self, path: Path) -> Place:
        """Return where a value begins, or else its key."""
        return self.values.get(path) or self.key(path)


def find_places(text: str) -> Places:
    """Scan a valid TOML text. O(text)."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.places


class _Scanner:
    """Walks the text once; `at` is the position of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.places = Places({}, {})
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def document(self) -> None:
        """Scan tables and their key/value lines."""
        table: Path = ()
        tables_of: dict[Path, int] = {}
        while self._skip_space():
            if self._take("[["):
                start, name = self.at, self._key()
                index = tables_of[name] = tables_of.get(name, -1) + 1
                table = (*name, str(index))
                self._note_key(table, start)
                self._note_key(name, start)
                self.at = self.text.index("]]", self.at) + 2
            elif self._take("["):
                start, table = self.at, self._key()
                self._note_key(table, start)
                self.at = self.text.index("]", self.at) + 1
            else:
                self._pair(table)

    def _pair(self, table: Path) -> None:
        start = self.at
        path = table + self._key()
        self._note_key(path, start)
        self.at = self.text.index("=", self.at) + 1
        self._value(path)

    def _key(self) -> Path:
        """Scan a bare, quoted or dotted key."""
        parts: list[str] = []
        while True:
            self._skip_space()
            if match := _BARE.match(self.text, self.at):
                parts.append(match[0])
                self.at = match.end()
            else:
                parts.append(self._string())
            self._skip_space()
            if not self._take("."):
                return tuple(parts)

    def _value(self, path: Path) -> None:
        self._skip_space()
        self.places.values.setdefault(path, self._place(self.at))
        if self._take("["):
            self._items(path)
        elif self._take("{"):
            while self._skip_space() and not self._take("}"):
                self._pair(path)
                self._skip_space()
                self._take(",")
        elif self.text[self.at] in "\"'":
            self._string()
        elif match := _SCALAR.match(self.text, self.at):
            self.at = match.end()

    def _items(self, path: Path) -> None:
        index = 0
        while self._skip_space() and not self._take("]"):
            self._value((*path, str(index)))
            index += 1
            self._skip_space()
            self._take(",")

    def _string(self) -> str:
        """Scan a string of any of the four kinds; return it as written, which is enough for keys."""
        quote = next(quote for quote in _QUOTES if self.text.startswith(quote, self.at))
        start = end = self.at + len(quote)
        while not self.text.startswith(quote, end):
            end += 2 if quote[0] == '"' and self.text[end] == "\\" else 1
        # Up to two quotes may stand before the three that close a long string.
        while len(quote) == 3 and self.text.startswith(quote, end + 1):
            end += 1
        self.at = end + len(quote)
        return self.text[start:end]

    def _skip_space(self) -> bool:
        """Skip white space and comments; False at the end of the text."""
        if match := _SPACE.match(self.text, self.at):
            self.at = match.end()
        return self.at < len(self.text)

    def _take(self, word: str) -> bool:
        found = self.text.startswith(word, self.at)
        self.at += len(word) if found else 0
        return found

    def _note_key(self, path: Path, start: int) -> None:
        for length in range(1, len(path) + 1):
            self.places.keys.setdefault(path[:length], self._place(start))

    def _place(self, position: int) -> Place:
        line = bisect_right(self._line_starts, position)
        return Place(line, position - self._line_starts[line - 1] + 1)
