"""How much longer than a line a query can make a text: bounded, so that nested calls cannot eat the memory.

Pure. Each call that can lengthen its text has a factor; the product along any path of calls is the growth.
"""

from __future__ import annotations

from sqlglot import exp

from elf.agents.language.dialect import refused

#: A text may become this many times as long as the columns and constants it is made of.
GROWTH_MAX = 64


def check_growth(tree: exp.Expr) -> None:
    """Refuse a query in which calls nested in each other lengthen a text too much.

    Raises:
        JobSpecError: names the innermost call with which the bound is passed.
    """
    pending: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while pending:
        node, growth = pending.pop()
        growth *= _factor(node)
        if growth > GROWTH_MAX:
            hint = f"a text may grow {GROWTH_MAX} times at most"
            raise refused(node, "this call, inside the others around it, makes texts too long", hint)
        pending += [(child, growth) for child in node.iter_expressions()]


def _factor(node: exp.Expr) -> int:
    """How many times as long as its longest argument a call's text can be."""
    if isinstance(node, exp.DPipe):
        # a || b || c is one concatenation, whose size the outermost || stands for.
        return 1 if isinstance(node.parent, exp.DPipe) else _operands(node)
    if not isinstance(node, exp.Anonymous):
        return 1
    texts = [part.this if isinstance(part, exp.Literal) else "" for part in node.expressions]
    match node.name.lower():
        case "replace" if len(texts) == 3:
            return -(-max(1, len(texts[2])) // max(1, len(texts[1])))
        case "regexp_replace" if len(texts) >= 3:
            return max(1, len(texts[2]) + texts[2].count("$"))
        case "concat" | "concat_ws":
            return max(1, sum(not isinstance(part, exp.Literal) for part in node.expressions))
    return 1


def _operands(node: exp.Expr) -> int:
    count, pending = 0, [node]
    while pending:
        part = pending.pop()
        if isinstance(part, exp.DPipe):
            pending += [part.this, part.expression]
        else:
            count += not isinstance(part, exp.Literal)
    return max(1, count)
