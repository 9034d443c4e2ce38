"""TOML within limits: hostile texts are refused at once, and with a place."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.toml.text import KEY_PARTS_MAX, TomlError, parse_toml


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("a = 1\nb = ", "Invalid value", 2, 5),
        ("a = 1\nb", "Expected '=' after a key in a key/value pair", 2, 2),
        ("x = 1\n " + ".".join("a" * 32_000) + " = 1", "more than 32 words with dots between them", 2, 2),
        ("[" + "'a' . " * 16_000 + "b]", "more than 32 words with dots between them", 1, 2),
        ("a = " + "[" * 1_000, "arrays or tables are nested too deeply", 1, 1),
        ("a = " + "{a = " * 1_000, "arrays or tables are nested too deeply", 1, 1),
        ("name = web1\nquery = ''", 'text needs quotes: name = "web1"', 1, 8),
        ("a = 1\nb.c = /var/lib # here", 'text needs quotes: b.c = "/var/lib"', 2, 7),
        ("bind = 127.0.0.1:4250", 'text needs quotes: bind = "127.0.0.1:4250"', 1, 8),
        ("lateness = 2 seconds", 'text needs quotes: lateness = "2 seconds"', 1, 12),
        ("join = ['a:1', b:1]", 'text needs quotes: "b:1"', 1, 16),
        ("a = " + "x" * 900, f'text needs quotes: a = "{"x" * 60}..."', 1, 5),
        ("on = True", "write on = true", 1, 6),
        ("a = 1 'x'", "Expected newline or end of document after a statement", 1, 7),
        ("a = 1\nb = -" + "9" * 6_000, "a number is too long", 2, 6),
    ],
)
def test_what_is_no_toml_has_a_place(text: str, message: str, line: int, column: int) -> None:
    with pytest.raises(TomlError) as failure:
        parse_toml(text)
    assert (failure.value.message, failure.value.line, failure.value.column) == (message, line, column)


def test_long_texts_and_ordinary_keys_are_read() -> None:
    addresses = ", ".join(f"'10.0.{n // 256}.{n % 256}'" for n in range(4_000))
    text = f'query = """SELECT a.b FROM c WHERE d IN ({addresses})"""\n{".".join("k" * KEY_PARTS_MAX)} = "a. b. c. d."'
    assert parse_toml(text) == tomllib.loads(text)


@given(st.text("ab.\"'= []{}#\n0\\", max_size=60))
def test_any_text_is_read_as_tomllib_reads_it_or_refused(text: str) -> None:
    try:
        wanted = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(TomlError):
            parse_toml(text)
    else:
        assert parse_toml(text) == wanted
