"""The benchmark's queries, in each engine's own words."""

from __future__ import annotations

from dataclasses import dataclass, field

WINDOW_MS = 30_000


@dataclass(frozen=True)
class Query:
    """A query: the job's SQL, and DuckDB's over the same file (`{path}`)."""

    format: str
    sql: str
    duckdb: str
    columns: dict[str, str] = field(default_factory=dict)


_COMBINED = (
    r'^(\S+) \S+ (\S+) \[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d{{3}}|-) (\d+|-) "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"$'
)
_DUCKDB_LINES = (
    "read_csv('{path}', columns={{'line': 'VARCHAR'}}, delim='\x01', quote='', escape='', header=false, "
    "auto_detect=false)"
)

QUERIES = {
    "topk": Query(
        format="json",
        columns={"category": "STRING", "event": "STRING", "product": "STRING", "price_cents": "BIGINT"},
        sql="""
            SELECT product, count(*) AS clicks, sum(price_cents) AS cents FROM log
            WHERE category = 'Video Games' AND event = 'click'
            GROUP BY product, window(ts, '30 seconds')
            ORDER BY clicks DESC, product LIMIT 10
        """,
        duckdb="""
            SELECT epoch_ms(ts) // 30000 * 30000 AS start, product, count(*) AS clicks,
                sum(price_cents)::BIGINT AS cents
            FROM read_json('{path}', format='newline_delimited', columns={{ts: 'TIMESTAMP', category: 'VARCHAR',
                event: 'VARCHAR', product: 'VARCHAR', price_cents: 'BIGINT'}})
            WHERE category = 'Video Games' AND event = 'click'
            GROUP BY 1, 2
            QUALIFY row_number() OVER (PARTITION BY start ORDER BY clicks DESC, product) <= 10
            ORDER BY start, clicks DESC, product
        """,
    ),
    "count": Query(
        format="json",
        columns={"product": "STRING"},
        sql="SELECT product, count(*) AS n FROM log GROUP BY product ORDER BY n DESC, product",
        duckdb="""
            SELECT product, count(*) AS n
            FROM read_json('{path}', format='newline_delimited', columns={{product: 'VARCHAR'}})
            GROUP BY product ORDER BY n DESC, product
        """,
    ),
    "paths": Query(
        format="combined",
        sql="""
            SELECT path, status, count(*) AS n, sum(bytes) AS bytes FROM log
            GROUP BY path, status, window(ts, '30 seconds')
            ORDER BY n DESC, path, status LIMIT 10
        """,
        duckdb=f"""
            WITH fields AS (
                SELECT regexp_extract(line, '{_COMBINED}',
                    ['host', 'user', 'time', 'request', 'status', 'bytes', 'referer', 'agent']) AS f
                FROM {_DUCKDB_LINES}
            )
            SELECT epoch_ms(strptime(f.time, '%d/%b/%Y:%H:%M:%S %z')) // 30000 * 30000 AS start,
                nullif(regexp_extract(f.request, '^\\S+ ([^ ?]+)\\S* HTTP/[0-9.]+$', 1), '') AS path,
                f.status::INT AS status, count(*) AS n, sum(f.bytes::BIGINT)::BIGINT AS bytes
            FROM fields GROUP BY 1, 2, 3
            QUALIFY row_number() OVER (PARTITION BY start ORDER BY n DESC, path NULLS FIRST, status) <= 10
            ORDER BY start, n DESC, path NULLS FIRST, status
        """,
    ),
}
