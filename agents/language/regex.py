r"""Java regular expressions, translated to the ones Polars has.

Rust's and Java's expressions differ in what `.`, `$`, `\d`, `\w`, `\s` and case-insensitivity mean. `translate` writes
each of them out so that it matches what Java matches, and refuses what Rust lacks (lookaround, back references,
possessive quantifiers) or what depends on the Java version (`\b`, `\p{...}`).
"""

from __future__ import annotations

import dataclasses
import re

import polars as pl
from polars.exceptions import PolarsError
from sqlglot import exp

from elf.agents.errors import JobSpecError
from elf.agents.language.coercion import implicit
from elf.agents.language.dialect import refused
from elf.agents.language.patterns import constant_text
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value

_ANY = r"[^\n\r\x{85}\x{2028}\x{2029}]"
_END = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z"
_CLASSES = {
    "d": "0-9",
    "w": "A-Za-z0-9_",
    "s": r"\t\n\x0B\f\r ",
}
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f", "a": r"\x07", "e": r"\x1B"}
_QUANTIFIER = re.compile(r"[*+?]|\{\d{1,4}(?:,\d{0,4})?\}")
_REPEATS_MAX = 1_000
_LOOKAROUND = {
    "=": "lookahead",
    "!": "lookahead",
    ">": "an atomic group",
}


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A translated expression.

    Attributes:
        rust: matches in Rust what the original matches in Java.
        groups: how many groups it captures.
        ends_softly: whether it has a `$`, which in Java also matches before a last line break.
    """

    rust: str
    groups: int
    ends_softly: bool

    @property
    def matches_empty(self) -> bool:
        """Whether it can match no characters at all."""
        return bool(pl.select(pl.lit("").str.contains(self.rust)).item())


def rlike_expr(value: Value, pattern: Value) -> pl.Expr:
    """Evaluate RLIKE: whether the pattern matches anywhere."""
    subject = implicit(value, SqlType.STRING)
    if subject is None:
        raise refused(value.node, f"RLIKE takes a STRING, not {value.type.value}")
    compiled = compile_pattern(pattern)
    if compiled is None:
        return pl.lit(None, dtype=pl.Boolean)
    return subject.expr.str.contains(compiled.rust)


def compile_pattern(pattern: Value) -> Pattern | None:
    """Translate a pattern literal and try it; None for NULL.

    Raises:
        JobSpecError: it is no literal, too long, invalid, or would mean something else than in Java.
    """
    text = constant_text(pattern, "a regular expression")
    if text is None:
        return None
    translated = _Translator(text, pattern.node).run()
    try:
        pl.select(pl.lit("").str.contains(translated.rust))
    except PolarsError as error:
        raise refused(pattern.node, f"invalid regular expression: {str(error).splitlines()[0]}") from None
    return translated


def translate_replacement(value: Value, groups: int) -> str | None:
    r"""Translate Java's `$1` and `\x` in a replacement to Rust's; None for NULL."""
    text = constant_text(value, "the replacement")
    if text is None:
        return None
    parts: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\":
            if at == len(text):
                raise refused(value.node, "the replacement ends in a backslash")
            parts.append(_plain_replacement(text[at]))
            at += 1
        elif char == "$":
            start = at
            while at < len(text) and text[at] in "0123456789" and (at == start or int(text[start : at + 1]) <= groups):
                at += 1
            if at == start or int(text[start:at]) > groups:
                raise refused(value.node, f"the replacement names a group the pattern does not have ({groups} groups)")
            parts.append(f"${{{int(text[start:at])}}}")
        else:
            parts.append(_plain_replacement(char))
    return "".join(parts)


def _plain_replacement(char: str) -> str:
    return "$$" if char == "$" else char


class _Translator:
    """One pass over a Java pattern."""

    def __init__(self, text: str, node: exp.Expr) -> None:
        self._text = text
        self._node = node
        self._at = 0
        self._parts: list[str] = []
        self._groups = 0
        self._ends_softly = False
        self._ignore_case = False
        self._dot = _ANY

    def run(self) -> Pattern:
        self._flags()
        while self._at < len(self._text):
            self._piece()
        return Pattern("".join(self._parts), self._groups, self._ends_softly)

    def _no(self, what: str, hint: str | None = None) -> JobSpecError:
        return refused(self._node, f"in a regular expression, {what}", hint)

    def _flags(self) -> None:
        flags = re.match(r"\(\?([is]+)\)", self._text)
        if flags is not None:
            self._ignore_case = "i" in flags[1]
            if "s" in flags[1]:
                self._dot = "(?s:.)"
            self._at = flags.end()

    def _piece(self) -> None:
        char = self._text[self._at]
        if char == "\\":
            self._parts.append(self._escape(in_class=False))
        elif char == "[":
            self._parts.append(self._class())
        elif char == "(":
            self._parts.append(self._group())
            return
        elif char in "|^":
            self._at += 1
            self._parts.append(r"\A" if char == "^" else char)
            return
        elif char == ")":
            self._at += 1
            self._parts.append(char)
        elif char == "$":
            self._at += 1
            self._ends_softly = True
            self._parts.append(_END)
            return
        elif char in "*+?{":
            raise self._no(f"{char!r} repeats nothing", f"write \\{char} for the character itself")
        elif char == ".":
            self._at += 1
            self._parts.append(self._dot)
        else:
            self._at += 1
            self._parts.append(self._letter(char))
        self._quantifier()

    def _quantifier(self) -> None:
        found = _QUANTIFIER.match(self._text, self._at)
        if found is None:
            return
        if any(int(number) > _REPEATS_MAX for number in re.findall(r"\d+", found[0])):
            raise self._no(f"{found[0]} repeats more than {_REPEATS_MAX} times")
        self._at = found.end()
        self._parts.append(found[0])
        if self._text.startswith("+", self._at):
            raise self._no("possessive quantifiers are not in the job language", "leave out the last +")
        if self._text.startswith("?", self._at):
            self._at += 1
            self._parts.append("?")
        if self._at < len(self._text) and self._text[self._at] in "*+?{":
            raise self._no("two quantifiers follow each other")

    def _group(self) -> str:
        if not self._text.startswith("(?", self._at):
            self._at += 1
            self._groups += 1
            return "("
        if self._text.startswith("(?:", self._at):
            self._at += 3
            return "(?:"
        name = re.compile(r"\(\?<[A-Za-z][A-Za-z0-9]*>").match(self._text, self._at)
        if name is not None:
            self._at = name.end()
            self._groups += 1
            return "("
        rest = self._text[self._at + 2 : self._at + 3]
        if rest == "<":
            raise self._no("lookbehind is not in the job language")
        what = _LOOKAROUND.get(rest, "a flag other than (?i) or (?s) at the very beginning")
        raise self._no(f"{what} is not in the job language")

    def _letter(self, char: str) -> str:
        if self._ignore_case and char.isascii() and char.isalpha():
            return f"[{char.upper()}{char.lower()}]"
        return _quoted(char)

    def _escape(self, *, in_class: bool) -> str:
        letter = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        if not letter:
            raise self._no("a backslash stands at the end", r"write \\ for a backslash; in SQL text '\\\\'")
        if letter in _CLASSES:
            return _CLASSES[letter] if in_class else f"[{_CLASSES[letter]}]"
        if letter.lower() in _CLASSES:
            return f"[^{_CLASSES[letter.lower()]}]"
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in "xu":
            code = re.compile(r"[0-9A-Fa-f]{2}" if letter == "x" else r"[0-9A-Fa-f]{4}").match(self._text, self._at)
            if code is None:
                raise self._no(f"\\{letter} needs hexadecimal digits")
            self._at = code.end()
            if 0xD800 <= int(code[0], 16) <= 0xDFFF:
                raise self._no("a surrogate is no character")
            return self._letter(chr(int(code[0], 16))) if not in_class else _quoted(chr(int(code[0], 16)))
        if letter in "Az" and not in_class:
            return rf"\{letter}"
        if letter.isdigit() or letter == "k":
            raise self._no("back references are not in the job language")
        if letter in "bB":
            raise self._no(rf"\{letter} differs between Java versions", r"write (?:^|\W) or (?:\W|$)")
        if letter.isalnum():
            raise self._no(rf"\{letter} is not in the job language")
        return _quoted(letter)

    def _class(self) -> str:
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        members: list[str] = []
        while True:
            if self._at >= len(self._text):
                raise self._no("'[' is not closed", r"write \[ for the character itself")
            char = self._text[self._at]
            if char == "]" and members:
                self._at += 1
                break
            if char in "[]" or self._text.startswith("&&", self._at):
                raise self._no("classes inside classes are not in the job language", rf"write \{char} for itself")
            members.append(self._member())
        return f"[{'^' if negated else ''}{''.join(members)}]"

    def _member(self) -> str:
        first = self._single()
        following = self._text[self._at + 1 : self._at + 2]
        if len(first) != 1 or not self._text.startswith("-", self._at) or following in ("]", ""):
            return self._cased(first, first) if len(first) == 1 else first
        self._at += 1
        last = self._single()
        if len(last) != 1 or last < first:
            raise self._no("this range of characters is empty or has no end")
        return self._cased(first, last)

    def _single(self) -> str:
        """One member of a class: a bare character, or what an escape stands for (then longer than one)."""
        char = self._text[self._at]
        if char in "[]" or self._text.startswith("&&", self._at):
            raise self._no("classes inside classes are not in the job language", rf"write \{char} for itself")
        if char != "\\":
            self._at += 1
            return char
        escaped = self._escape(in_class=True)
        if re.fullmatch(r"\\[^A-Za-z0-9]", escaped):
            return escaped[1]
        return {r"\t": "\t", r"\n": "\n", r"\r": "\r", r"\f": "\f", r"\x07": "\a", r"\x1B": "\x1b"}.get(
            escaped, escaped
        )

    def _cased(self, first: str, last: str) -> str:
        ranges = [(first, last)]
        if self._ignore_case:
            for low, high, shift in (("a", "z", -32), ("A", "Z", 32)):
                start, end = max(first, low), min(last, high)
                if start <= end:
                    ranges.append((chr(ord(start) + shift), chr(ord(end) + shift)))
        return "".join(_quoted(a) if a == b else f"{_quoted(a)}-{_quoted(b)}" for a, b in ranges)


def _quoted(char: str) -> str:
    """A character that stands for itself in Rust, inside and outside of classes."""
    if char.isalnum() or char in " _" or not char.isascii():
        return char
    return f"\\{char}" if char.isprintable() else f"\\x{{{ord(char):x}}}"
