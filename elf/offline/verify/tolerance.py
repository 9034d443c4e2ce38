"""How far a published cell may be from Spark's, and still be right.

Spark computes exactly what a sketch only estimates, so a sketch is held against the truth within its stated error: the
share `accuracy` of `approx_percentile` is a bound, `rsd` of `approx_count_distinct` a standard deviation, of which
`DEVIATIONS` are allowed. Everything else is equal, but for the rounding of doubles: sums of the same numbers in another
order differ in the last digits, and a variance loses as many digits as the mean is larger than the spread.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from sqlglot import exp

from elf.agents.language.query import aggregate_call
from elf.cbt.aggregates.cardinality import RSD_DEFAULT
from elf.cbt.aggregates.quantiles import ACCURACY_DEFAULT, accuracy_of

#: The tolerance of doubles.
RELATIVE = 1e-9
#: That of doubles computed from a variance.
RELATIVE_SPREAD = 1e-6
#: Standard deviations that an estimate may be off: one of two million is further.
DEVIATIONS = 5

_SPREADS = ("var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev", "std")
_PERCENTILES = ("approx_percentile", "percentile_approx")


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """What two cells of one column may differ by.

    Attributes:
        relative: share of the larger one.
        absolute: in any case, between numbers that are estimates.
        estimate: whether whole numbers may differ, too.
    """

    relative: float = RELATIVE
    absolute: float = 0.0
    estimate: bool = False

    def close(self, one: Any, other: Any) -> bool:
        """Whether two cells are equal, or near enough; NaN equals NaN and NULL equals NULL."""
        if isinstance(one, list) and isinstance(other, list):
            return len(one) == len(other) and all(map(self.close, one, other))
        numbers = (int, float) if self.estimate else (float,)
        if all(isinstance(cell, numbers) and not isinstance(cell, bool) for cell in (one, other)):
            near = math.isclose(one, other, rel_tol=self.relative, abs_tol=self.absolute)
            return near or (one != one and other != other)
        return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


EXACT = Tolerance()


def tolerance_of(node: exp.Expr, items: dict[str, exp.Expr]) -> Tolerance:
    """The tolerance of an expression over aggregates: the widest of those in it.

    Args:
        node: the expression.
        items: output columns by name in lower case, which the expression may refer to.
    """
    found = [EXACT]
    for part in node.walk():
        if (
            isinstance(part, exp.Column)
            and not part.table
            and (item := items.get(part.name.lower())) not in (None, node)
        ):
            assert item is not None
            found.append(tolerance_of(item, {}))
        if isinstance(part, exp.Anonymous) and (call := aggregate_call(part)) is not None:
            found.append(_of_call(call))
    return max(found, key=lambda each: (each.estimate, each.relative))


def _of_call(call: exp.Expr) -> Tolerance:
    name = call.name.lower()
    arguments = [_number(argument) for argument in call.expressions]
    if name == "approx_count_distinct":
        rsd = arguments[1] if len(arguments) == 2 else RSD_DEFAULT
        return Tolerance(DEVIATIONS * rsd, 2.0, True)
    if name in _PERCENTILES:
        accuracy = accuracy_of(max(1, int(arguments[2]))) if len(arguments) == 3 else ACCURACY_DEFAULT
        # The larger of both cells is what the share is taken of; answers for whole numbers are rounded.
        return Tolerance(accuracy * (1 + RELATIVE), 0.5, True)
    return Tolerance(RELATIVE_SPREAD) if name in _SPREADS else EXACT


def _number(node: exp.Expr) -> float:
    return float(node.name) if isinstance(node, exp.Literal) and not node.is_string else 0.0
