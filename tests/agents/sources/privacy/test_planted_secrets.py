"""Ten thousand secrets by keys, forms, ways of encoding and columns: none is left, whatever stands beside it."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from elf.agents.settings.config import PrivacySection
from elf.agents.sources.privacy.redaction import Redactor
from elf.agents.sources.privacy.secret_values import MASK
from tests.privacy.planted import SIGN, planted

COUNT = 10_000
README = (Path(__file__).parents[4] / "README.md").read_text()
#: Of access logs what a header Authorization has is not looked for; all else is, in every column.
COLUMNS = ("uri", "request", "query", "referer", "cookie", "message", "log", "anything", "a.b['c'][0]")


def left(texts: list[str], column: str) -> list[str | None]:
    return Redactor(PrivacySection()).events(pl.DataFrame({column: texts}))[column].to_list()


@pytest.mark.parametrize("column", COLUMNS)
def test_no_secret_is_left_in_a_column(column: str) -> None:
    rng = random.Random(column)
    made = [planted(rng) for _ in range(COUNT)]
    authorize = ("basic", "bearer", "header")
    if column in ("uri", "request", "query", "referer"):
        made = [each for each in made if each[0] not in authorize]
    found = left([text for _, text in made], column)
    assert [(how, text, told) for (how, text), told in zip(made, found, strict=True) if SIGN in (told or "")][:5] == []


def test_no_secret_is_left_in_rejected_lines_and_messages() -> None:
    rng, redactor = random.Random(2), Redactor(PrivacySection())
    for _, text in (planted(rng) for _ in range(500)):
        [(line, _)] = redactor.rejects([(f"\x16 bad {text}".encode(), "why")])
        assert SIGN.encode() not in line
        assert SIGN not in redactor.message(f"cannot cast {text}")


@pytest.mark.parametrize(
    "column",
    [
        *("password", "userPassword", "http_x_api_key", "arg_token", "cookie_session", "user.password"),
        *("credentials.user", "a.tokens.token[0]", "request.headers['Authorization'][0]", "password[2].old"),
    ],
)
def test_columns_in_secret_places_are_masked(column: str) -> None:
    assert left([SIGN, "x"], column) == [MASK, MASK]


@pytest.mark.parametrize("column", ["uri", "message", "user_agent"])
def test_what_becomes_of_a_text_is_the_same_whatever_stands_beside_it(column: str) -> None:
    """How lines are cut into frames must not tell in results."""
    rng = random.Random(3)
    texts = [planted(rng)[1] for _ in range(300)]
    texts += ["/a?compass=1", "/a?monkey=%41", "Basic YWxpY2U6aHVudGVy", "/a?userPassword=1", "plain", "//h:8080/p@q"]
    together = left(texts, column)
    assert together == [left([text], column)[0] for text in texts]


@pytest.mark.parametrize(
    "text",
    [
        *("/a?monkey=1&inside=2&passenger=3&design=4&compass=5", "/a?token_count=3&sessions=4", "/token/abc?page=1"),
        *('{"tokens":3,"token_count":3,"passes":["a"]}', "12:30:45 done", "https://h:8080/p?mail=a@b", "a basic page"),
        *("/r?u=https%3A%2F%2Fh%3A8080%2Fp%3Fmail%3Da%40b", "http://h/?q=a%40b:c", "ssh://git@host/x", "a = b"),
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert left([text, "/a?t%6fken=1"], "message")[0] == text


@pytest.mark.parametrize(
    "text",
    [
        *("page_token=1", "nonsecret=1", "pin=berlin", "session=morning", "auth=none", "pass=2", "sid=7"),
        *("?code=article12", "basic requirements", "//host:8080@x"),
    ],
)
def test_the_first_page_names_what_is_masked_too_much(text: str) -> None:
    assert MASK in (left([text], "message")[0] or "")
    assert text.strip("?") in README


@pytest.mark.parametrize(
    "text",
    ["/reset/8f3a", "<token>8f3a</token>", "password: 8f3a", "{'token': '8f3a'}", '{"name": "token", "value": "8f3a"}'],
)
def test_the_first_page_names_what_is_not_found(text: str) -> None:
    assert left([text], "message") == [text]
    assert text in README
