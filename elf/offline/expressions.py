"""From the job language's expressions to Spark columns.

Each node becomes a call of Spark's own operator or function, so types, null rules and coercion are Spark's; no SQL
text is built, and nothing here knows how the agents evaluate. Only listed functions are called: Spark has some that
run any Java method (`reflect`), and a definition comes over the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlglot import exp

from elf.agents.errors import JobSpecError, did_you_mean, nearest
from elf.agents.language.aggregate_facts import AGGREGATES
from elf.agents.language.installed.installed import find_function, installed
from elf.offline.functions import function_column

if TYPE_CHECKING:
    from pyspark.sql import Column

#: Asked first for every node: the column it stands for (a name, a group key, an aggregate), or None.
Resolve = Callable[[exp.Expr], "Column | None"]

#: Deterministic functions of one row.
FUNCTIONS = frozenset(
    re.findall(
        r"\w+",
        """
    abs acos acosh add_months ascii asin asinh atan atan2 atanh base64 bigint bin bit_count bit_length boolean bround
    btrim cbrt ceil ceiling char char_length character_length chr coalesce concat concat_ws contains conv cos cosh cot
    crc32 csc date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff
    datepart day dayname dayofmonth dayofweek dayofyear decode degrees div double e elt encode endswith equal_null exp
    expm1 factorial find_in_set float floor format_number format_string from_unixtime from_utc_timestamp
    get_json_object greatest hash hex hour hypot if ifnull ilike initcap instr int isnan isnotnull isnull last_day
    lcase least left len length levenshtein like ln locate log log10 log1p log2 lower lpad ltrim make_date
    make_timestamp mask md5 minute mod month monthname months_between nanvl negative next_day nullif nullifzero nvl
    nvl2 octet_length overlay parse_url pi pmod position positive pow power printf quarter radians regexp regexp_count
    regexp_extract regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse right rint rlike round
    rpad rtrim sec second sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin sinh smallint soundex
    space split_part sqrt startswith string substr substring substring_index tan tanh timestamp timestamp_micros
    timestamp_millis timestamp_seconds tinyint to_date to_number to_timestamp to_unix_timestamp to_utc_timestamp
    translate trim trunc try_add try_divide try_multiply try_parse_url try_subtract try_to_date try_to_number
    try_to_timestamp try_url_decode typeof ucase unbase64 unhex unix_date unix_micros unix_millis unix_seconds
    unix_timestamp upper url_decode url_encode weekday weekofyear width_bucket xxhash64 year zeroifnull
    """,
    )
)
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.And: "and",
    exp.Or: "or",
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.DPipe: "concat",
    exp.Like: "like",
    exp.ILike: "ilike",
    exp.RegexpLike: "rlike",
}
#: What makes times of counts: of what, in microseconds.
_UNITS_US = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1_000}
_TYPES = {
    exp.DType.BOOLEAN: "boolean",
    exp.DType.TINYINT: "tinyint",
    exp.DType.SMALLINT: "smallint",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
    exp.DType.TEXT: "string",
    exp.DType.VARCHAR: "string",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
}


def call(name: str, *arguments: Column) -> Column:
    """Call a function or operator of Spark by its name, which may be a sign such as `<=`."""
    from pyspark.sql import functions as F

    return F.call_function(f"`{name}`", *arguments)


def to_column(node: exp.Expr, resolve: Resolve) -> Column:
    """Translate one expression; `resolve` says what its names stand for.

    Raises:
        JobSpecError: the expression has a part this planner does not know.
    """
    if (known := resolve(node)) is not None:
        return known

    def go(part: exp.Expr) -> Column:
        return to_column(part, resolve)

    if (name := _OPERATORS.get(type(node))) is not None:
        return call(name, go(node.args["this"]), go(node.args["expression"]))
    match node:
        case exp.Paren():
            return go(node.this)
        case exp.Literal() | exp.Null() | exp.Boolean():
            return _literal(node)
        case exp.Neg(this=exp.Literal(is_string=False) as number):
            # -2147483648 is an INT although 2147483648 is not: the sign belongs to the number.
            return _literal(number, sign=-1)
        case exp.Neg() | exp.Not() | exp.BitwiseNot():
            sign = {exp.Neg: "negative", exp.Not: "not", exp.BitwiseNot: "~"}[type(node)]
            return call(sign, go(node.this))
        case exp.NEQ():
            return call("not", call("=", go(node.this), go(node.expression)))
        case exp.NullSafeNEQ():
            return call("not", call("<=>", go(node.this), go(node.expression)))
        case exp.Escape(this=exp.Like() | exp.ILike() as like):
            return call(_OPERATORS[type(like)], go(like.this), go(like.expression), go(node.expression))
        case exp.Between():
            value = go(node.this)
            return call("and", call(">=", value, go(node.args["low"])), call("<=", value, go(node.args["high"])))
        case exp.In() if node.expressions and not node.args.get("query"):
            return go(node.this).isin(*[go(option) for option in node.expressions])
        case exp.Is(expression=exp.Null()):
            return call("isnull", go(node.this))
        case exp.Is(expression=exp.Boolean()):
            return call("<=>", go(node.this), go(node.expression))
        case exp.Concat():
            # Literals side by side, 'a' 'b', are one.
            return call("concat", *map(go, node.expressions))
        case exp.Case():
            return _case(node, go)
        case exp.Cast() if (target := _TYPES.get(node.to.this)) is not None and not node.to.expressions:
            return go(node.this).cast(target)
        case exp.Anonymous() if find_function(node.name.lower()) is not None:
            return function_column(node.name.lower(), [go(argument) for argument in node.expressions], "raise")
        case exp.Anonymous() if (unit_us := _UNITS_US.get(node.name.lower())) is not None and len(
            node.expressions
        ) == 1:
            return _since(node.name.lower(), go(node.expressions[0]), unit_us)
        case exp.Anonymous() if node.name.lower() in FUNCTIONS:
            return call(node.name.lower(), *[go(argument) for argument in node.expressions])
        case exp.Anonymous():
            near = did_you_mean(nearest(node.name.lower(), FUNCTIONS.union(AGGREGATES, installed().names)))
            raise JobSpecError(
                f"the Spark planner does not call the function {node.name!r}, and none of that name is installed{near}"
            )
        case _:
            raise JobSpecError(f"the Spark planner does not know {node.sql(dialect='spark')!r} ({node.key})")


def _since(name: str, count: Column, unit_us: int) -> Column:
    """Call a function that makes a time; NULL of counts that 64 bits do not reach, on which Spark's fails."""
    from pyspark.sql import functions as F

    return F.when(count.between(-(2**63 // unit_us), (2**63 - 1) // unit_us), call(name, count))


def _literal(node: exp.Expr, sign: int = 1) -> Column:
    from pyspark.sql import functions as F

    if isinstance(node, exp.Null):
        return F.lit(None)
    if isinstance(node, exp.Boolean):
        return F.lit(bool(node.this))
    text = str(node.this)
    if node.args.get("is_string"):
        return F.lit(text)
    if "e" in text.lower():
        return F.lit(sign * float(text))
    number = sign * Decimal(text)
    is_long = text.isdigit() and -(2**63) <= number < 2**63
    return F.lit(int(number)) if is_long else F.lit(number)


def _case(node: exp.Case, go: Callable[[exp.Expr], Column]) -> Column:
    from pyspark.sql import functions as F

    whens: Column | None = None
    for branch in node.args["ifs"]:
        test = go(branch.this) if node.this is None else call("=", go(node.this), go(branch.this))
        value = go(branch.args["true"])
        whens = F.when(test, value) if whens is None else whens.when(test, value)
    assert whens is not None, "the grammar demands one WHEN"
    default = node.args.get("default")
    return whens if default is None else whens.otherwise(go(default))
