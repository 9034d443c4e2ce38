"""DuckDB over the same file: `engine_duckdb.py QUERY FILE`; prints the result as JSON."""

from __future__ import annotations

import json
import sys

import duckdb
from queries import QUERIES


def main(name: str, path: str) -> None:
    """Run a query over a file and print its rows."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    rows = connection.execute(QUERIES[name].duckdb.format(path=path)).fetchall()
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
