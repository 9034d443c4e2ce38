"""Classes of characters, `[...]`, of Java's regular expressions, as ranges of code points that Rust writes likewise."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn

#: What `\d`, `\w` and `\s` match in Java: nothing beyond ASCII.
NAMED = {"d": "0-9", "w": "A-Za-z0-9_", "s": r"\t\n\x{b}\f\r "}
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
#: Lower and upper case, and from one to the other: Java's (?i) knows ASCII only.
_CASES = ((ord("a"), ord("z"), -32), (ord("A"), ord("Z"), 32))

Refuse = Callable[[str, "str | None"], NoReturn]


class Escape(NamedTuple):
    """What a backslash and what follows it stand for: one character, or a class of them in Rust; the other is None."""

    char: str | None
    named: str | None
    end: int


def read_escape(text: str, at: int, refuse: Refuse) -> Escape:
    """Read the escape that begins at a place; those of places in a text and of unknown letters are refused."""
    letter = text[at + 1 : at + 2]
    if not letter:
        refuse("a backslash stands at the end", r"write \\ for a backslash")
    if letter.lower() in NAMED:
        return Escape(None, f"[{'' if letter in NAMED else '^'}{NAMED[letter.lower()]}]", at + 2)
    if letter in CONTROLS:
        return Escape(CONTROLS[letter], None, at + 2)
    if letter in "xu":
        code = re.compile(r"[0-9A-Fa-f]{2}" if letter == "x" else r"[0-9A-Fa-f]{4}").match(text, at + 2)
        if code is None:
            refuse(f"\\{letter} needs {2 if letter == 'x' else 4} hexadecimal digits", None)
        if 0xD800 <= int(code[0], 16) <= 0xDFFF:
            refuse("a surrogate is no character", None)
        return Escape(chr(int(code[0], 16)), None, code.end())
    if letter == "0":
        refuse("octal numbers of characters are not in the job language", r"write \x and two hexadecimal digits")
    if letter.isdigit() or letter == "k":
        refuse("back references are not in the job language", None)
    if letter in "bB":
        refuse(rf"\{letter} differs between Java versions", r"write (?:^|\W) before a word, (?:\W|$) behind it")
    if letter.isalnum():
        refuse(rf"\{letter} is not in the job language", None)
    return Escape(letter, None, at + 2)


def quoted(char: str) -> str:
    r"""Return what a character that stands for itself is in Rust, in classes and outside, where `\<` is none."""
    if char.isalnum() or char in " _<>" or not char.isascii():
        return char
    return f"\\{char}" if char.isprintable() else f"\\x{{{ord(char):x}}}"


class ClassReader:
    """Reads one class.

    Args:
        text: the whole expression.
        at: where its `[` is.
        ignore_case: whether the expression begins with (?i).
        refuse: raises the error for what is wrong, and what would be right.
    """

    def __init__(self, text: str, at: int, ignore_case: bool, refuse: Refuse) -> None:
        self._text = text
        self.at = at
        self._ignore_case = ignore_case
        self._refuse = refuse

    def read(self) -> str:
        """Return the class in Rust; `at` is behind it then."""
        self.at += 1
        negated = self._text.startswith("^", self.at)
        self.at += negated
        members: list[str] = []
        while not (members and self._text.startswith("]", self.at)):
            members.append(self._member())
        self.at += 1
        return f"[{'^' if negated else ''}{''.join(members)}]"

    def _member(self) -> str:
        first, named = self._single()
        if named is not None:
            return named
        behind = self._text[self.at + 1 : self.at + 2]
        if not self._text.startswith("-", self.at) or behind in ("]", ""):
            return self._ranges(first, first)
        self.at += 1
        last, named = self._single()
        if named is not None or last < first:
            self._refuse("this range of characters is empty or has no end", r"write \- for the character itself")
        return self._ranges(first, last)

    def _single(self) -> tuple[str, str | None]:
        """Read a character, or a class that an escape stands for."""
        char = self._text[self.at : self.at + 1]
        if not char:
            self._refuse("'[' is not closed", r"write \[ for the character itself")
        if char in "[]" or self._text.startswith("&&", self.at):
            self._refuse("classes inside classes are not in the job language", rf"write \{char} for itself")
        if char != "\\":
            self.at += 1
            return char, None
        escape = read_escape(self._text, self.at, self._refuse)
        self.at = escape.end
        return escape.char or "", escape.named

    def _ranges(self, first: str, last: str) -> str:
        ranges = [(first, last)]
        for low, high, shift in _CASES if self._ignore_case else ():
            start, end = max(ord(first), low), min(ord(last), high)
            if start <= end:
                ranges.append((chr(start + shift), chr(end + shift)))
        return "".join(quoted(a) if a == b else f"{quoted(a)}-{quoted(b)}" for a, b in ranges)
