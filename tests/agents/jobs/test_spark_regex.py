"""Regular expressions and LIKE against Spark's: expressions and texts are generated, a few thousand in a query.

An expression that we take has to be one of Java, and to match, extract and replace the same.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import polars as pl
import pytest
from sqlglot import exp

from elf.agents.errors import JobSpecError
from elf.agents.language.patterns import like_expr
from elf.agents.language.regex_translation import Pattern, translate
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NODE = exp.Literal.string("x")
CHARACTERS = [
    *"abcKZ09_<>=&~#/%\"'@!`,;:}] -", r"\.", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", ".", r"\t", r"\r", r"\n", r"\f",
    r"\h", r"\H", r"\v", r"\V", r"\R", r"\Z", r"\x{41}", r"\x{1F600}", r"\p{Punct}", r"\P{Alnum}", r"\p{Cntrl}",
    r"\x41", r"\x00", r"\u00e9", "é", r"\<", r"\>", r"\-", r"\_", r"\/", r"\|", r"\x85",
]  # fmt: skip
MEMBERS = [
    *"abzAZ09_<>=~#/%\"'@!;:.*+?(){}|$ ", "&", "a-c", "<-@", "!-/", r"\x00-\x1f", r"\t-\r", r"\x00-\x7f", r"\u0080-é",
    "+--", "a-", r"\d", r"\w", r"\s", r"\S", r"\W", r"\h", r"\V", r"\p{Alpha}", r"\P{Print}", r"\x{e9}",
    r"\]", r"\[", r"\^", r"\-", r"a\-c", r"\u2028",
]  # fmt: skip
IN_TEXTS = "aaabbcABKZ<>=&~-#/.019_ \t\n\r\u0085\u2028\"'@!`,;:}]é\u212a\u0660%+*\\\x00\x1f[($|\U0001f600"
ENDS = ["", "", "", "\n", "\r", "\r\n", "\n\r", "\n\n", "\u0085", "\u2029"]


class Maker:
    """Makes expressions and texts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def expression(self) -> str:
        choose = self.random.choice
        flags, begin = choose(["", "", "", "(?i)", "(?s)", "(?is)"]), choose(["", "", "", "^", r"\A"])
        return flags + begin + self._branches(3) + choose(["", "", "", "$", "$", r"\z", "$|b"])

    def _branches(self, depth: int) -> str:
        count = self.random.choice([1, 1, 1, 2, 3])
        return "|".join(self._sequence(depth) for _ in range(count))

    def _sequence(self, depth: int) -> str:
        return "".join(self._part(depth) for _ in range(self.random.choice([0, 1, 1, 2, 2, 3])))

    def _part(self, depth: int) -> str:
        kind = self.random.random()
        if depth == 0 or kind < 0.45:
            return self.random.choice(CHARACTERS)
        if kind < 0.6:
            members = "".join(self.random.choices(MEMBERS, k=self.random.randint(1, 3)))
            return f"[{self.random.choice(['', '^'])}{members}]"
        if kind < 0.75:
            return (
                self.random.choice(["(", "(?:", f"(?<n{self.random.randrange(99)}>"]) + self._branches(depth - 1) + ")"
            )
        quantifier = self.random.choice(["*", "+", "?", "{2}", "{1,2}", "{0,}", "{0}", "*?", "+?", "??", "{1,3}?"])
        return self._part(depth - 1) + quantifier

    def text(self) -> str:
        return "".join(self.random.choices(IN_TEXTS, k=self.random.randrange(9))) + self.random.choice(ENDS)


def answers(pattern: Pattern, texts: list[str]) -> pl.DataFrame:
    """What we make of each text; NULL where the functions refuse the expression."""
    text, none = pl.Series("w", texts), pl.lit(None, pl.String)
    takes = not pattern.repeats_nothing
    extracts = {
        f"g{group}": pl.col("w").str.extract(pattern.rust, group).fill_null("")
        if takes and group <= pattern.groups and group not in pattern.soft
        else none
        for group in range(3)
    }
    replaces = takes and not pattern.soft and not pattern.matches_empty
    replaced = pl.col("w").str.replace_all(f"(?:{pattern.rust})", "<${0}>") if replaces else none
    return text.to_frame().select(pl.col("w").str.contains(pattern.rust).alias("r"), replaced.alias("x"), **extracts)


@pytest.mark.parametrize("seed", [1, 2])
def test_expressions_match_what_they_match_in_java(spark: SparkSession, seed: int) -> None:
    maker = Maker(seed)
    compiles = spark._jvm.java.util.regex.Pattern.compile
    rows: list[tuple[int, int, str, str]] = []
    ours: list[dict[str, object]] = []
    taken = 0
    while taken < 700:
        expression = maker.expression()
        try:
            pattern = translate(expression, NODE)
        except JobSpecError:
            continue
        compiles(expression)  # what we take is one of Java
        texts = [maker.text() for _ in range(8)]
        rows += [(len(rows) + number, pattern.groups, expression, text) for number, text in enumerate(texts)]
        ours += answers(pattern, texts).iter_rows(named=True)
        taken += 1
    frame = spark.createDataFrame(rows, "i INT, groups INT, p STRING, w STRING")
    groups = [f"CASE WHEN groups >= {each} THEN regexp_extract(w, p, {each}) END AS g{each}" for each in range(3)]
    judged = (
        frame.selectExpr("i", "w RLIKE p AS r", "regexp_replace(w, p, '<$0>') AS x", *groups).orderBy("i").collect()
    )
    for (_, _, expression, text), found, truth in zip(rows, ours, judged, strict=True):
        for name, value in found.items():
            same = value is None or value == truth[name]
            assert same, f"{expression!r} in {text!r}, {name}: {value!r}, in Java {truth[name]!r}"
    assert sum(bool(found["r"]) for found in ours) > 1_000 and sum(found["x"] is not None for found in ours) > 1_000


def test_like_matches_what_it_matches_in_spark(spark: SparkSession) -> None:
    chosen = random.Random(3)
    plain = [*"aaABkK<>.*+?()[]{}|^$&~#-/ ", "é", "\n", "\u212a", "\U0001f600"]
    #: A part of a pattern, and what it may match.
    parts = {char: [char] for char in plain} | {"%": ["", "a", "x\n<b>"], "_": ["a", "<", "\n"]}
    parts |= {r"\%": ["%", "a"], r"\_": ["_", "a"], r"\\": ["\\"]}
    keys = [*parts, "%", "%", "_", "%"]

    def one() -> tuple[str, str]:
        picked = chosen.choices(keys, k=chosen.randrange(6))
        text = "".join(chosen.choice(parts[part]) for part in picked)
        return "".join(picked), chosen.choice([text, text, text, text.swapcase(), f"{text}\n"])

    rows = [(number, *one()) for number in range(3_000)]
    frame = spark.createDataFrame(rows, "i INT, p STRING, w STRING")
    judged = frame.selectExpr("w LIKE p AS l", "w ILIKE p AS i", "i AS n").orderBy("n").collect()
    hits = 0
    for (_, pattern, text), truth in zip(rows, judged, strict=True):
        value = Value(pl.lit(text), SqlType.STRING, NODE, text)
        written = Value(pl.lit(pattern), SqlType.STRING, NODE, pattern)
        for name in "li":
            found = pl.select(like_expr(value, written, "\\", ignore_case=name == "i")).item()
            assert found == truth[name], f"{text!r} {name} {pattern!r}: {found}, in Spark {truth[name]}"
            hits += found
    assert hits > len(rows) / 4
