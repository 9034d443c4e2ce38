"""Texts grow within a bound, whatever is nested in what; what people write every day passes."""

import pytest

from elf.agents.errors import JobSpecError
from elf.agents.language.dialect import parse_statement
from elf.agents.language.growth import check_growth


def nested(call: str, levels: int) -> str:
    text = "path"
    for _ in range(levels):
        text = call.format(text)
    return text


@pytest.mark.parametrize(
    "text",
    [
        nested("replace({}, 'a', 'aaaa')", 3),
        nested("regexp_replace({}, '[0-9]+', 'N')", 20),
        "replace(path, '/', '')",
        " || '-' || ".join(["path"] * 30),
        "concat(" + ", ".join(["path", "'/'"] * 60) + ")",
        nested("concat({0}, {0})", 6),
    ],
)
def test_growth_within_the_bound_passes(text: str) -> None:
    check_growth(parse_statement(f"SELECT max({text}) AS x FROM s"))


@pytest.mark.parametrize(
    "text",
    [
        nested("replace({}, 'a', 'aaaa')", 4),
        nested("regexp_replace({}, '(.)', '$1$1')", 5),
        nested("concat({0}, {0})", 7),
        "CASE WHEN true THEN " + nested("replace({}, 'a', 'aaaa')", 4) + " END",
        "replace(path, 'a', '" + "b" * 65 + "')",
    ],
)
def test_growth_beyond_the_bound_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(JobSpecError, match="64 times") as failure:
        check_growth(parse_statement(f"SELECT max({text}) AS x FROM s"))
    assert failure.value.line == 1
