"""The page of security says what is tested, and where: each line of what holds names tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "SECURITY.md").read_text()
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def claims() -> list[str]:
    """What is said to hold, a line each."""
    cannot = section("A web server that was taken over").split("\nHe cannot\n")[1].split("\nThen:")[0]
    return [
        " ".join(line.split())
        for text in (section("What holds"), cannot)
        for line in re.findall(r"^- (.*?)(?=\n- |\n\n|\Z)", text.strip(), flags=re.MULTILINE | re.DOTALL)
    ]


def test_the_page_is_read_as_it_is_written() -> None:
    assert len(claims()) == section("What holds").count("\n- ") + 5
    assert all(re.match(r"[A-Z a-z]", claim) for claim in claims())


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim[:50])
def test_what_is_said_to_hold_names_tests_that_are_there(claim: str) -> None:
    named = _NAMED.findall(claim)
    assert named, "no test is named"
    for path, name in named:
        file = ROOT / path
        assert file.is_file(), path
        functions = ast.FunctionDef | ast.AsyncFunctionDef
        there = {node.name for node in ast.parse(file.read_text()).body if isinstance(node, functions)}
        assert name in there, f"{path} has no {name}"


def test_whatever_else_is_named_is_there() -> None:
    for path in re.findall(r"`(tests/[\w/.]+)(?:::\w+)?`", PAGE):
        assert (ROOT / path).exists(), path
