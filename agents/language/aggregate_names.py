"""The names of the aggregates of the job language. Pure."""

from __future__ import annotations

AGGREGATES = (
    *("count", "count_if", "sum", "avg", "mean", "min", "max", "min_by", "max_by", "first", "first_value", "last"),
    *("last_value", "any_value", "bool_and", "bool_or", "every", "some", "any", "var_pop", "var_samp", "variance"),
    *("stddev_pop", "stddev_samp", "stddev", "std", "approx_count_distinct", "approx_percentile"),
    *("percentile_approx", "collect_set"),
)
