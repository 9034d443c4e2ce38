"""A first job for a source: what is asked most, or how much comes, in the last minute. Pure."""

from __future__ import annotations

from collections.abc import Collection

from elf.installation.files import MARK

#: What to count by, the first that a format has.
_KEYS = ("path", "uri", "target", "host", "program", "remote_addr")
_WINDOW = "window(ts, '60 seconds', '10 seconds')"


def first_job(source: str, columns: Collection[str]) -> str:
    """Write a job in SQL.

    Args:
        source: whose events it counts.
        columns: that their format declares; empty if only the lines know.
    """
    key = next((each for each in _KEYS if each in columns), None)
    figures = ["count(*) AS hits"]
    if "status" in columns:
        figures.append("sum(CASE WHEN status >= 500 THEN 1 ELSE 0 END) AS errors")
    if "bytes" in columns:
        figures.append("sum(bytes) AS bytes")
    selected = ", ".join(([key] if key else []) + figures)
    groups = ", ".join(([key] if key else []) + [_WINDOW])
    order = f"\nORDER BY hits DESC, {key} LIMIT 20" if key else ""
    table = source if source.replace("_", "").isalnum() else f"`{source}`"
    return f"{MARK.replace('#', '--')}; yours to change.\nSELECT {selected}\nFROM {table}\nGROUP BY {groups}{order}\n"
