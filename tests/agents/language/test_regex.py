"""What Java's regular expressions become in Rust."""

import re

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from elf.agents.errors import JobSpecError
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import compile_job
from elf.agents.language.regex import compile_pattern, translate_replacement
from elf.agents.language.regex_translation import Pattern
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value


def literal(text: str) -> Value:
    return Value(pl.lit(text), SqlType.STRING, exp.Literal.string(text), text)


def translated(text: str) -> Pattern:
    pattern = compile_pattern(literal(text))
    assert pattern is not None
    return pattern


@pytest.mark.parametrize(
    ("java", "rust"),
    [
        ("abc", "abc"),
        (r"\d+", "[0-9]+"),
        (r"\W", "[^A-Za-z0-9_]"),
        (r"[\d-]", r"[[0-9]\-]"),
        ("^a", r"\Aa"),
        ("(?i)ab", "[Aa][Bb]"),
        ("(?i)[a-c5]", "[a-cA-C5]"),
        ("a{2,3}?", "a{2,3}?"),
        ("(?:a|b)*", "(?:a|b)*"),
        ("(?<name>x)", "(x)"),
        (r"\.\/", r"\.\/"),
        ("a~b", r"a\~b"),
        ("<b>", "<b>"),
        (r"\<\>", "<>"),
        ("[<>]", "[<>]"),
        ("[^<>]", "[^<>]"),
        (r"[\x00-\x1f]", r"[\x{0}-\x{1f}]"),
        (r"[\t-\r]", r"[\x{9}-\x{d}]"),
        (r"[^\x00-\x7f]", r"[^\x{0}-\x{7f}]"),
        ("(?i)[Z-c]", r"[Z-cA-Cz]"),
    ],
)
def test_translation(java: str, rust: str) -> None:
    assert translated(java).rust == rust


def test_groups_and_soft_ends_are_noticed() -> None:
    assert translated("(a)(?:b)(c)").groups == 2
    assert translated("a$").soft == {0} and translated("(a)(b$)").soft == {0, 2} and not translated(r"a\$").soft
    assert translated("a*").matches_empty and not translated("a+").matches_empty


@pytest.mark.parametrize(
    "java",
    [
        *("a++", "a**", "[", "[]", "(", ")", "\\", "(?x)a", r"\1", r"\bx", r"\p{L}", "a{9999}", "{1}", r"\01", "^*"),
        *("a{3,2}", "(?<n>a)(?<n>b)", "[a", r"[a-\d]", "[c-a]", "a$b", "(a$)b", "(a$)+", "(a$|b)c", "[a&&b]", r"\x4"),
    ],
)
def test_what_is_refused(java: str) -> None:
    with pytest.raises(JobSpecError):
        translated(java)


def test_a_long_pattern_is_refused() -> None:
    with pytest.raises(JobSpecError, match="1024 bytes"):
        translated("a" * 1_025)


@pytest.mark.parametrize(("java", "rust"), [("$1x", "${1}x"), (r"\$1", "$$1"), ("$12", "${1}2"), ("a\\\\b", "a\\b")])
def test_replacements(java: str, rust: str) -> None:
    assert translate_replacement(literal(java), 1) == rust


@settings(max_examples=300)
@given(st.text(alphabet="ab1-^$.|?*+()[]{}\\dwsn,:<>=!&~", max_size=12))
def test_any_text_is_a_pattern_or_one_clear_error(text: str) -> None:
    try:
        translated(text)
    except JobSpecError as error:
        assert "\n" not in str(error)


#: An expression, and what is wrong in it: the hint, put in this place, makes it one that is taken.
MENDED = [
    ("*a", "*"), ("a|+", "+"), ("{a}", "{"), ("(a", "("), ("a)", ")"), ("[a", "["), ("[a[b]", "[b"), ("a$b", "$"),
    ("(a$)+", "$"), ("x\\", "\\"), ("[z-a]", "-"), (r"\bx", r"\b"),
]  # fmt: skip


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(("java", "wrong"), MENDED)
def test_hints_work_when_they_are_pasted(java: str, wrong: str, raw: bool) -> None:
    def written(text: str) -> str:
        return text if raw else text.replace("\\", "\\\\")

    def refusal(text: str) -> JobSpecError | None:
        query = f"SELECT k, count(*) AS n FROM t WHERE k RLIKE {'r' * raw}'{text}' GROUP BY k"
        try:
            compile_job(Definition(name="j", creator="c", source="t", query=query), {"k": SqlType.STRING})
        except JobSpecError as error:
            return error
        return None

    error = refusal(written(java))
    assert error is not None and error.hint is not None
    hint = re.match(r"write (\S+)", error.hint)
    assert hint is not None, error.hint
    tail = "b" if wrong == "[b" else ""
    assert refusal(written(java).replace(written(wrong), hint[1] + tail, 1)) is None
    if wrong == r"\b":
        behind = re.search(r", (\S+) behind it", error.hint)
        assert behind is not None and refusal(f"x{behind[1]}") is None
