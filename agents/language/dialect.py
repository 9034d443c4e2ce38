"""Reading SQL text into a syntax tree whose nodes know their place.

Owns the one dialect the job language is read with: Spark's grammar, with every function call left exactly as written
(`exp.Anonymous` with its name and arguments). A function then means what Spark says it means, in the evaluation here
and in the offline planner alike, and no parser rewrites stand between the two. What of the tree is allowed is decided
by `query` and `expressions`, not here. DESIGN section 4.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from elf.agents.errors import ConfigError, JobSpecError, did_you_mean, nearest

#: A query is written by hand; more than this is a mistake or an attack.
QUERY_BYTES_MAX = 16 * 1024
#: Nodes of the syntax tree; a list of a thousand conditions fits.
NODES_MAX = 8_000
#: Nesting of expressions. Both this compiler and Polars walk trees by recursion; chains of AND or OR count once.
DEPTH_MAX = 64

_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT")
_KEYWORDS = {word for clause in _CLAUSES for word in clause.split()}
#: What may come after the lists of columns, and the parts of a text that matter for where they end.
_NEXT_CLAUSES = {"SELECT": ("FROM",), "BY": ("HAVING", "ORDER", "LIMIT")}
#: What begins a list, and what comes after one.
_BEFORE_A_LIST = {TokenType.SELECT, TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.L_PAREN, TokenType.COMMA}
_BEHIND_A_LIST = {
    TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.R_PAREN,
    TokenType.COMMA, TokenType.SEMICOLON,
}  # fmt: skip
_TOKEN = re.compile(r"--[^\n]*|'(?:[^'\\]|\\.)*'|`[^`]*`|\w+|[^\s\w]")


class JobSql(Spark):
    """Spark SQL without the rewriting of functions and without `window` as a reserved word."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's words, but `window` is a plain name: named window clauses are not in the language."""

        KEYWORDS: ClassVar = {word: token for word, token in Spark.Tokenizer.KEYWORDS.items() if word != "WINDOW"}

    class Parser(SparkParser):
        """Spark's grammar; only CAST and CASE keep their own syntax."""

        FUNCTIONS: ClassVar = {}
        FUNCTION_PARSERS: ClassVar = {name: SparkParser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")}
        NO_PAREN_FUNCTIONS: ClassVar = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}


def require_parser() -> None:
    """Refuse an environment where SQLGlot is compiled: of its parsers then no other can be made, such as ours.

    Raises:
        ConfigError: at the import of this module already, or an agent would start and could read no job.
    """
    try:
        JobSql().parser()
    except TypeError as error:
        raise ConfigError(
            f"jobs cannot be read with the compiled SQLGlot that is installed here ({error}); `pip uninstall sqlglotc` "
            "takes its compiled parts out, or install elf into an environment of its own"
        ) from None


require_parser()


def parse_statement(text: str) -> exp.Expression:
    """Parse one statement and mark every node with its place.

    Raises:
        JobSpecError: the text is no single statement, is too long or nested too deeply.
    """
    if len(text.encode()) > QUERY_BYTES_MAX:
        raise JobSpecError(f"the query is longer than {QUERY_BYTES_MAX} bytes", line=1, column=1)
    dialect = JobSql()
    try:
        tokens = dialect.tokenize(text)
        _check_commas(text, tokens)
        statements = [tree for tree in dialect.parser().parse(tokens, text) if tree is not None]
    except ParseError as error:
        raise _parse_error(text, error) from None
    except TokenError as error:
        raise _token_error(text, error) from None
    except RecursionError:
        raise JobSpecError("the query is nested too deeply", line=1, column=1) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Expression):
        raise JobSpecError("a job is exactly one SELECT statement", line=1, column=1)
    tree = statements[0]
    _check_size(tree)
    _mark_places(tree, text)
    return tree


def _check_commas(text: str, tokens: Sequence[Token]) -> None:
    """Refuse commas beside which something is missing: SQLGlot passes over them, and Spark does not."""
    before: Token | None = None
    for token, after in itertools.zip_longest(tokens, tokens[1:]):
        if token.token_type is TokenType.COMMA:
            for beside, ends in ((before, _BEFORE_A_LIST), (after, _BEHIND_A_LIST)):
                if beside is None or beside.token_type in ends:
                    what = "the query's end" if beside is None else repr(beside.text)
                    line, column = _line_column(text, token.start)
                    hint = "leave the comma out, or write what is missing"
                    raise JobSpecError(f"nothing is between a comma and {what}", line=line, column=column, hint=hint)
        before = token


def place_of(node: exp.Expr) -> tuple[int, int]:
    """The 1-based line and column where the node's text begins; of its nearest marked ancestor if it has none."""
    at: exp.Expr | None = node
    while at is not None:
        if "place" in at.meta:
            line, column = at.meta["place"]
            return int(line), int(column)
        at = at.parent
    return 1, 1


def written(node: exp.Expr) -> str:
    """Write an expression for people, on one line."""
    return node.sql(dialect="spark", comments=False, normalize_functions=False)


def refused(node: exp.Expr, message: str, hint: str | None = None) -> JobSpecError:
    """Build the error for a node that cannot be run as written."""
    line, column = place_of(node)
    return JobSpecError(message, line=line, column=column, hint=hint)


def _mark_places(tree: exp.Expression, text: str) -> None:
    starts: dict[int, int] = {}
    for node in reversed(list(tree.walk())):
        known = [starts[id(child)] for child in node.iter_expressions() if id(child) in starts]
        if "start" in node.meta:
            known.append(int(node.meta["start"]))
        if known:
            starts[id(node)] = min(known)
            node.meta["place"] = _line_column(text, min(known))


def _line_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _check_size(tree: exp.Expression) -> None:
    # Breadth first and without recursion: the tree is still unchecked.
    level: list[exp.Expr] = [tree]
    total = 0
    for depth in itertools.count():
        if not level:
            return
        total += len(level)
        if depth > DEPTH_MAX or total > NODES_MAX:
            raise JobSpecError(
                f"the query is nested deeper than {DEPTH_MAX} levels or has over {NODES_MAX} parts", line=1, column=1
            )
        level = [child for node in level for child in _children(node)]


def _children(node: exp.Expr) -> Iterator[exp.Expr]:
    for child in node.iter_expressions():
        if isinstance(node, exp.And | exp.Or) and type(child) is type(node):
            yield from child.flatten(unnest=False)
        else:
            yield child


def _parse_error(text: str, error: ParseError) -> JobSpecError:
    details = error.errors[0] if error.errors else {}
    line, end_column = details.get("line"), details.get("col")
    word = str(details.get("highlight") or "")
    message = str(details.get("description") or _first_line(str(error))).rstrip(". ")
    if "<class" in message:
        message = "something that belongs here is missing"
    if line is None or end_column is None:
        return JobSpecError(message, line=1, column=1)
    column = max(1, end_column - len(word) + 1)
    if (missing := _missing_comma(text, line, column)) is not None:
        return missing
    # A misspelt keyword reads as an alias, and the trouble shows only at the word after it.
    before = re.search(r"([A-Za-z]+)[ \t]+$", str(details.get("start_context") or ""))
    if before is not None and before[1].upper() not in _KEYWORDS and nearest(before[1].upper(), _KEYWORDS):
        column -= len(before[0])
        word = before[1]
    near = f" near {word!r}" if word else ""
    guesses = nearest(word.upper(), _KEYWORDS) if word.isalpha() and word.upper() not in _KEYWORDS else ()
    hint = did_you_mean(guesses).lstrip("; ") or f"the parts of a query, in order: {' '.join(_CLAUSES)}"
    return JobSpecError(f"syntax error{near}: {message}", line=line, column=max(1, column), hint=hint)


def _missing_comma(text: str, line: int, column: int) -> JobSpecError | None:
    """Return the error for a list of columns that lacks a comma before what stands at a place, if that is what it is.

    After SELECT ends with FROM, one after GROUP BY with another clause: a word like those is rather a misspelt one.
    """
    lines = text.split("\n")
    at = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
    words = [match for match in _TOKEN.finditer(text) if match.start() <= at]
    if words and words[-1][0] == "(":
        words.pop()  # of a call, whose name begins before
    depth, clause, after = 0, "", 0
    for index, word in enumerate(words[:-1]):
        depth += {"(": 1, ")": -1}.get(word[0], 0) + {"CASE": 1, "END": -1}.get(word[0].upper(), 0)
        if word[0].upper() in _KEYWORDS:
            clause, after = word[0].upper(), index + 1
    if depth or clause not in _NEXT_CLAUSES or len(words) - after < 2 or words[-2][0] in (",", "."):
        return None
    found, known = words[-1], _NEXT_CLAUSES[clause]
    upper = [word[0].upper() for word in words[-2:]]
    if not re.match(r"[\w`']", found[0]) or upper[1] in _KEYWORDS or any(nearest(word, known) for word in upper):
        return None
    place = _line_column(text, found.start())
    what = "output columns" if clause == "SELECT" else "keys"
    hint = f"{what} have commas between them; a name after AS is one word"
    return JobSpecError(f"a comma is missing before {found[0]!r}", line=place[0], column=place[1], hint=hint)


def _token_error(text: str, error: TokenError) -> JobSpecError:
    cause = str(error.__cause__ or error)
    place = re.search(r" from \d+:(\d+)", cause)  # The line, and the offset in the whole text.
    if place is None:
        return JobSpecError(_first_line(cause), line=1, column=1)
    line, column = _line_column(text, int(place[1]))
    return JobSpecError("a text, name or comment that begins here is not closed", line=line, column=column)


def _first_line(message: str) -> str:
    return message.strip().splitlines()[0] if message.strip() else "syntax error"
