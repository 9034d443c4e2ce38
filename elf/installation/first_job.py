"""A first job for a log: what is asked for most, or how much comes. Pure."""

from __future__ import annotations

from collections.abc import Collection

from elf.installation.files import MARK

#: What to count by, the first that lines have.
KEYS = ("path", "uri", "request_uri", "url", "target", "host", "program", "remote_addr")
_WINDOW = "window(ts, '60 seconds', '10 seconds')"


def first_job(source: str, columns: Collection[str]) -> str:
    """Write a job in SQL: of the last minute, anew every ten seconds.

    Args:
        source: whose events it counts.
        columns: that they are known to have.
    """
    return f"{MARK.replace('#', '--')}; yours to change.\n{_query(source, columns, _WINDOW)}\n"


def first_question(source: str, columns: Collection[str]) -> str:
    """Write a query over all lines there are; arguments as of `first_job`."""
    return _query(source, columns, "")


def _query(source: str, columns: Collection[str], window: str) -> str:
    key = next((each for each in KEYS if each in columns), "")
    selected = [*([key] if key else []), "count(*) AS hits"]
    if "status" in columns:
        selected.append("sum(CASE WHEN status >= 500 THEN 1 ELSE 0 END) AS errors")
    if "bytes" in columns:
        selected.append("sum(bytes) AS bytes")
    table = source if source.replace("_", "").isalnum() else f"`{source}`"
    lines = [f"SELECT {', '.join(selected)}", f"FROM {table}"]
    if groups := [each for each in (key, window) if each]:
        lines.append(f"GROUP BY {', '.join(groups)}")
    if key:
        lines.append(f"ORDER BY hits DESC, {key} LIMIT 20")
    return "\n".join(lines)
