"""The shop's windows computed by DuckDB over the generator's own files; shares nothing with elf."""

import collections
import pathlib
from collections.abc import Sequence

import duckdb

Windows = dict[int, list[tuple[str, int, int]]]


def shop_windows(logs: Sequence[pathlib.Path], size_ms: int, slide_ms: int, limit: int = 10) -> Windows:
    """Return start_ms -> the window's best products with clicks and cents, as the micro-promotion job orders them."""
    query = f"""
    WITH w AS (
      SELECT product, price_cents, epoch_ms(ts) AS at_ms, unnest(generate_series(0, {size_ms // slide_ms - 1})) AS k
      FROM read_json($files, format = 'newline_delimited', columns = {{
        ts: 'TIMESTAMP', product: 'VARCHAR', price_cents: 'BIGINT', event: 'VARCHAR', category: 'VARCHAR'}})
      WHERE event = 'click' AND category = 'Video Games'),
    g AS (
      SELECT (floor(at_ms / {slide_ms})::BIGINT - k) * {slide_ms} AS start_ms, product, count(*) AS clicks,
        sum(price_cents)::BIGINT AS cents
      FROM w GROUP BY ALL)
    SELECT start_ms, product, clicks, cents FROM g
    QUALIFY row_number() OVER (PARTITION BY start_ms ORDER BY clicks DESC, product) <= {limit}
    ORDER BY start_ms, clicks DESC, product
    """
    windows: Windows = collections.defaultdict(list)
    with duckdb.connect() as database:
        rows = database.execute(query, {"files": [str(log) for log in logs]}).fetchall()
    for start_ms, product, clicks, cents in rows:
        windows[start_ms].append((product, clicks, cents))
    return windows


def shop_job(size_s: int, slide_s: int, lateness: str = "6s", name: str = "micro-promotion") -> str:
    """Return the micro-promotion job with these windows."""
    return f"""
name = "{name}"
creator = "shop"
query = '''
SELECT product, count(*) AS clicks, sum(price_cents) AS cents
FROM clicks
WHERE event = 'click' AND category = 'Video Games'
GROUP BY product, window(ts, '{size_s} seconds', '{slide_s} seconds')
ORDER BY clicks DESC, product LIMIT 10
'''
[columns]
price_cents = "BIGINT"
[options]
lateness = "{lateness}"
"""
