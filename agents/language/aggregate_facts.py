"""The aggregates of the job language, as facts: what calls of them look like, and which laws their answers keep. Pure.

A new aggregate is a line here, a class in `elf.cbt.aggregates` that keeps and merges it, and that class's line there.
`aggregates` says what each form of call means; only a new form needs code. Spark's function of the same name judges it,
unless `elf.offline.aggregates` says otherwise.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Moves(Enum):
    """How an answer can move when one more event is counted."""

    UP = "it rises or stays"
    DOWN = "it falls or stays"
    BY_SIGN = "it rises by a positive value and falls by a negative one"
    BETWEEN = "it stays between the least value and the greatest"
    FREELY = "nothing is known"


class Fact(NamedTuple):
    """What is known of one aggregate without compiling it.

    Attributes:
        names: what jobs call it.
        form: which calls it has, as `aggregates` compiles them.
        kind: what is kept, one of `elf.cbt.aggregates.KINDS`; of forms that leave it open.
        least, most: how many arguments it takes.
        moves: how its answer moves with one more event.
        repeats: counting an event twice makes it larger.
        over_last: it may read the job's last result: what a value is worth that is there several times is known of it.
        skips_nulls: IGNORE NULLS may be written.
    """

    names: tuple[str, ...]
    form: str
    kind: str = ""
    least: int = 1
    most: int = 1
    moves: Moves = Moves.FREELY
    repeats: bool = False
    over_last: bool = False
    skips_nulls: bool = False


FACTS = (
    Fact(("count",), "count", most=100, moves=Moves.UP, repeats=True, over_last=True),
    Fact(("count_if",), "count_if", moves=Moves.UP, repeats=True, over_last=True),
    Fact(("sum",), "sum", moves=Moves.BY_SIGN, repeats=True, over_last=True),
    Fact(("avg", "mean"), "number", "avg", moves=Moves.BETWEEN, over_last=True),
    Fact(("min",), "value", "min", moves=Moves.DOWN, over_last=True),
    Fact(("max",), "value", "max", moves=Moves.UP, over_last=True),
    Fact(("min_by",), "by_value", "first_by", least=2, most=2, moves=Moves.BETWEEN),
    Fact(("max_by",), "by_value", "last_by", least=2, most=2, moves=Moves.BETWEEN),
    Fact(("first", "first_value"), "by_time", "first_by", most=2, moves=Moves.BETWEEN, skips_nulls=True),
    Fact(("last", "last_value"), "by_time", "last_by", most=2, moves=Moves.BETWEEN, skips_nulls=True),
    Fact(("any_value",), "any_value", most=2, moves=Moves.BETWEEN, over_last=True, skips_nulls=True),
    Fact(("bool_and", "every"), "condition", "bool_and", moves=Moves.DOWN, over_last=True),
    Fact(("bool_or", "some", "any"), "condition", "bool_or", moves=Moves.UP, over_last=True),
    Fact(("var_pop",), "double", "var_pop"),
    Fact(("var_samp", "variance"), "double", "var_samp"),
    Fact(("stddev_pop",), "double", "stddev_pop"),
    Fact(("stddev_samp", "stddev", "std"), "double", "stddev_samp"),
    Fact(("approx_count_distinct",), "approx_count_distinct", most=2, moves=Moves.UP),
    Fact(("approx_percentile", "percentile_approx"), "approx_percentile", least=2, most=3, moves=Moves.BETWEEN),
    Fact(("collect_set",), "collect_set"),
)
BY_NAME = {name: fact for fact in FACTS for name in fact.names}
#: All names, in the order in which they are told.
AGGREGATES = tuple(BY_NAME)
