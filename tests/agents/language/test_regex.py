"""What Java's regular expressions become in Rust."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from elf.agents.errors import JobSpecError
from elf.agents.language.regex import Pattern, compile_pattern, translate_replacement
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
        (r"[\d-]", r"[0-9\-]"),
        ("^a", r"\Aa"),
        ("(?i)ab", "[Aa][Bb]"),
        ("(?i)[a-c5]", "[a-cA-C5]"),
        ("a{2,3}?", "a{2,3}?"),
        ("(?:a|b)*", "(?:a|b)*"),
        ("(?<name>x)", "(x)"),
        (r"\.\/", r"\.\/"),
        ("a~b", r"a\~b"),
    ],
)
def test_translation(java: str, rust: str) -> None:
    assert translated(java).rust == rust


def test_groups_and_soft_ends_are_noticed() -> None:
    assert translated("(a)(?:b)(c)").groups == 2
    assert translated("a$").ends_softly and not translated(r"a\$").ends_softly
    assert translated("a*").matches_empty and not translated("a+").matches_empty


@pytest.mark.parametrize(
    "java", ["a++", "a**", "[", "[]", "(", ")", "\\", "(?x)a", r"\1", r"\bx", r"\p{L}", "a{9999}", "{1}"]
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
