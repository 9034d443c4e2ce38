"""Classes of characters, `[...]`, of Java's regular expressions, as ranges of code points that Rust writes likewise."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn

#: What `\d`, `\w` and `\s` match in Java: nothing beyond ASCII.
NAMED = {"d": "0-9", "w": "A-Za-z0-9_", "s": r"\t\n\x{b}\f\r "}
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
#: Spaces in a line and breaks of lines, `\h` and `\v`.
_SPACES = {
    "h": r"\t \x{a0}\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}",
    "v": r"\n\x{b}\f\r\x{85}\x{2028}\x{2029}",
}
#: The classes of POSIX, which in Java are of ASCII. (?i) does not change these; of `Lower` and `Upper` it does.
PROPERTIES = {
    "Alpha": "A-Za-z",
    "Digit": "0-9",
    "Alnum": "0-9A-Za-z",
    "XDigit": "0-9A-Fa-f",
    "Punct": r"!-\/:-@\[-`\{-\~",
    "Graph": r"!-\~",
    "Print": r"\x{20}-\~",
    "Blank": r"\t\x{20}",
    "Space": NAMED["s"],
    "Cntrl": r"\x{0}-\x{1f}\x{7f}",
    "ASCII": r"\x{0}-\x{7f}",
}
_PROPERTY = re.compile(r"\{([^{}]*)\}")
_WIDE = re.compile(r"\{([0-9A-Fa-f]{1,6})\}")
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
    if letter.lower() in _SPACES:
        return Escape(None, f"[{'' if letter in _SPACES else '^'}{_SPACES[letter.lower()]}]", at + 2)
    if letter in "pP":
        return _read_property(text, at, refuse)
    if letter == "x" and (wide := _WIDE.match(text, at + 2)) is not None:
        if int(wide[1], 16) > 0x10FFFF or 0xD800 <= int(wide[1], 16) <= 0xDFFF:
            refuse(f"\\x{wide[0]} is no character", None)
        return Escape(chr(int(wide[1], 16)), None, wide.end())
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
        hint = r"write (?:^|\W) before a word, (?:\W|$) behind it, which are part of what matches"
        refuse(rf"\{letter} differs between Java versions", hint if letter == "b" else None)
    if letter in "QE":
        refuse(rf"\{letter} is not in the job language", r"write a \ before each sign that stands for itself")
    if letter.isalnum():
        refuse(rf"\{letter} is not in the job language", None)
    return Escape(letter, None, at + 2)


def _read_property(text: str, at: int, refuse: Refuse) -> Escape:
    r"""Read `\p{Alpha}`: of these classes only those are known whose members no version of Unicode changes."""
    found = _PROPERTY.match(text, at + 2)
    members = PROPERTIES.get(found[1]) if found is not None else None
    if found is None or members is None:
        known = ", ".join(PROPERTIES)
        written = text[at : found.end()] if found is not None else text[at : at + 2]
        hint = rf"of \p{{...}} there are {known}; write others as ranges: [a-z]"
        refuse(f"{written} is not in the job language", hint)
    return Escape(None, f"[{'' if text[at + 1] == 'p' else '^'}{members}]", found.end())


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
        if self._text.startswith("&&", self.at):
            self._refuse("&& in a class, what classes have in common, is not in the job language", r"write \& for &")
        if char in "[]":
            self._refuse("classes inside classes are not in the job language", rf"write \{char} for itself")
        if self._text[self.at : self.at + 2] in (r"\b", r"\B"):
            self._refuse(f"{self._text[self.at : self.at + 2]} is a place, and no member of a class", None)
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
