r"""Java's regular expressions in the ones of Rust, as far as both certainly match the same, and no further.

They differ in what `.`, `$`, `\d`, `\w`, `\s` and case-insensitivity mean: each is written out so that it matches what
it does in Java. Refused is what Rust lacks (lookaround, back references, possessive quantifiers), what depends on the
Java version (`\b`, most of `\p{...}`), and a `$` with something behind it. What else the two do in their own ways is
told, so that it is refused where it matters.
"""

from __future__ import annotations

import dataclasses
import re
from typing import NoReturn

import polars as pl
from sqlglot import exp

from elf.agents.language.dialect import refused
from elf.agents.language.regex_classes import ClassReader, quoted, read_escape

_ANY = r"[^\n\r\x{85}\x{2028}\x{2029}]"
#: Before a last line break, which is consumed, and never within \r\n: in CRLF mode $ is not there either.
_END = r"(?:\r\n|(?mR:$)\n|[\r\x{85}\x{2028}\x{2029}])?\z"
_BREAK = r"(?:\r\n|[\n\x{b}\f\r\x{85}\x{2028}\x{2029}])"
_QUANTIFIER = re.compile(r"[*+?]|\{(\d{1,4})(,(\d{0,4}))?\}", re.ASCII)
_NAME = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_FLAGS = re.compile(r"\(\?([is]+)\)")
_REPEATS_MAX = 1_000
_LOOKAROUND = {"=": "lookahead", "!": "lookahead", ">": "an atomic group"}
END_HINT = r"write \z for the very end"


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A translated expression.

    Attributes:
        rust: matches in Rust what the original matches in Java.
        groups: how many groups it captures.
        soft: the groups with a `$` in them, 0 if there is one: here they hold the line break that it is before.
        repeats_nothing: whether it repeats what may match nothing: it matches the same texts then, not the same part.
    """

    rust: str
    groups: int
    soft: frozenset[int]
    repeats_nothing: bool

    @property
    def matches_empty(self) -> bool:
        """Whether it can match no characters at all."""
        return bool(pl.select(pl.lit("").str.contains(self.rust)).item())


@dataclasses.dataclass
class _Open:
    """A group that is not closed yet, or the whole: what is known of its branches up to here."""

    number: int | None
    #: Whether this branch may match nothing, and whether one before may.
    is_empty: bool = True
    was_empty: bool = False
    #: Whether a `$` has ended this branch, or one before.
    is_ended: bool = False
    was_ended: bool = False

    def end(self) -> None:
        """End this branch; another one begins."""
        self.was_empty = self.was_empty or self.is_empty
        self.was_ended = self.was_ended or self.is_ended
        self.is_empty = True
        self.is_ended = False


def hint_in(node: exp.Expr, hint: str) -> str:
    """Return a hint as it has to stand where the expression does: backslashes come twice in a text of SQL."""
    return hint if isinstance(node, exp.RawString) else hint.replace("\\", "\\\\")


def translate(text: str, node: exp.Expr) -> Pattern:
    """Translate an expression.

    Raises:
        JobSpecError: it is no expression of Java, or not certainly the same in Rust; the hint works when it is pasted.
    """
    return _Translator(text, node).run()


class _Translator:
    """One pass over an expression."""

    def __init__(self, text: str, node: exp.Expr) -> None:
        self._text = text
        self._node = node
        self._at = 0
        self._parts: list[str] = []
        self._open = [_Open(0)]
        self._groups = 0
        self._names: set[str] = set()
        self._soft: set[int] = set()
        self._repeats_nothing = False
        self._ignore_case = False
        self._dot = _ANY

    def run(self) -> Pattern:
        flags = _FLAGS.match(self._text)
        if flags is not None:
            self._ignore_case = "i" in flags[1]
            self._dot = "(?s:.)" if "s" in flags[1] else _ANY
            self._at = flags.end()
        while self._at < len(self._text):
            self._piece()
        if len(self._open) > 1:
            self._refuse("'(' is not closed", r"write \( for the character itself")
        return Pattern("".join(self._parts), self._groups, frozenset(self._soft), self._repeats_nothing)

    def _refuse(self, what: str, hint: str | None) -> NoReturn:
        hint = None if hint is None else hint_in(self._node, hint)
        raise refused(self._node, f"in a regular expression, {what}", hint)

    def _piece(self) -> None:
        char = self._text[self._at]
        branch = self._open[-1]
        if char == "|":
            self._at += 1
            self._parts.append("|")
            branch.end()
        elif char == ")":
            self._close()
        elif branch.is_ended:
            self._refuse("something follows $, which in Java may also be before a line break", END_HINT)
        elif char == "(":
            self._parts.append(self._group())
        elif char == "^" or self._text.startswith((r"\A", r"\z"), self._at):
            self._at += 1 if char == "^" else 2
            self._parts.append(r"\z" if self._text[self._at - 1] == "z" else r"\A")
            self._check_repeats_something()
        elif char == "$" or self._text.startswith(r"\Z", self._at):
            self._at += 1 if char == "$" else 2
            self._parts.append(_END)
            branch.is_ended = True
            self._soft.update(each.number for each in self._open if each.number is not None)
            self._check_repeats_something()
        elif self._text.startswith(r"\R", self._at):
            self._at += 2
            self._parts.append(_BREAK)
            branch.is_empty = False
            self._check_repeats_something(r"[\r\n]")
        elif char in "*+?{":
            self._refuse(f"{char!r} repeats nothing", f"write \\{char} for the character itself")
        else:
            self._parts.append(self._character(char))
            self._quantified(is_empty=False, is_ended=False)

    def _character(self, char: str) -> str:
        """Translate what matches one character."""
        if char == "[":
            read = ClassReader(self._text, self._at, self._ignore_case, self._refuse)
            made = read.read()
            self._at = read.at
            return made
        if char == "\\":
            escape = read_escape(self._text, self._at, self._refuse)
            self._at = escape.end
            return escape.named or self._letter(escape.char or "")
        self._at += 1
        return self._dot if char == "." else self._letter(char)

    def _letter(self, char: str) -> str:
        if self._ignore_case and char.isascii() and char.isalpha():
            return f"[{char.upper()}{char.lower()}]"
        return quoted(char)

    def _check_repeats_something(self, instead: str | None = None) -> None:
        if self._text[self._at : self._at + 1] in ("*", "+", "?", "{"):
            what = "a place" if instead is None else "a line break, which may be two characters"
            hint = None if instead is None else f"write {instead}"
            self._refuse(f"{self._text[self._at]!r} repeats {what}, not a character", hint)

    def _quantified(self, *, is_empty: bool, is_ended: bool) -> None:
        """Translate the quantifier of what was just written, if there is one."""
        branch = self._open[-1]
        found = _QUANTIFIER.match(self._text, self._at)
        if found is not None:
            is_empty = self._repeated(found, is_empty, is_ended)
        branch.is_empty = branch.is_empty and is_empty
        branch.is_ended = branch.is_ended or is_ended

    def _repeated(self, found: re.Match[str], is_empty: bool, is_ended: bool) -> bool:
        """Translate a quantifier; returns whether what it repeats may match nothing now."""
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(found[0], (0, 0))
        if found[0].startswith("{"):
            least = int(found[1])
            most = least if found[2] is None else int(found[3]) if found[3] else None
        if max(least, most or 0) > _REPEATS_MAX:
            self._refuse(f"{found[0]} repeats more than {_REPEATS_MAX} times", None)
        if most is not None and most < least:
            self._refuse(f"{found[0]} repeats at least more often than at most", None)
        self._at = found.end()
        self._parts.append(found[0])
        if self._text.startswith("+", self._at):
            self._refuse(
                "possessive quantifiers are not in the job language",
                "without the last + the same matches, unless what follows begins like what is repeated",
            )
        if self._text.startswith("?", self._at):
            self._at += 1
            self._parts.append("?")
        if self._at < len(self._text) and self._text[self._at] in "*+?{":
            self._refuse("two quantifiers follow each other", None)
        if is_ended and most != 1:
            self._refuse("a group with $ in it is repeated", END_HINT)
        self._repeats_nothing |= is_empty and most != 1
        return is_empty or least == 0

    def _group(self) -> str:
        at = self._at
        name = _NAME.match(self._text, at)
        captures = name is not None or not self._text.startswith("(?", at)
        if not captures and not self._text.startswith("(?:", at):
            rest = self._text[at + 2 : at + 3]
            if rest == "P":
                self._refuse("(?P is not Java's", "write (?<name>...) for a group with a name")
            if rest == "<":
                self._refuse("lookbehind is not in the job language", None)
            what = _LOOKAROUND.get(rest, "a flag other than (?i) or (?s) at the very beginning")
            self._refuse(f"{what} is not in the job language", None)
        if name is not None:
            if name[1] in self._names:
                self._refuse(f"two groups are called {name[1]}", None)
            self._names.add(name[1])
        self._at = name.end() if name is not None else at + (1 if captures else 3)
        self._groups += captures
        self._open.append(_Open(self._groups if captures else None))
        return "(" if captures else "(?:"

    def _close(self) -> None:
        if len(self._open) == 1:
            self._refuse("')' closes nothing", r"write \) for the character itself")
        self._at += 1
        self._parts.append(")")
        group = self._open.pop()
        group.end()
        self._quantified(is_empty=group.was_empty, is_ended=group.was_ended)
