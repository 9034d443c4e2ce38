"""How complete a result is that was made of others: no more than the least complete of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from elf.agents.wire.positions import Json

#: From worst to best.
_STATUSES = ("open", "partial", "final_incomplete", "revised", "final")
_COUNTS = ("late", "shed", "rejected", "gaps", "void", "revision")


def joined_completeness(parts: Sequence[Json]) -> Json:
    """Join the labels of results of one window, at least one, as `master.results.completeness_of` makes them.

    Agents that any of them lacks are missing. Late events, rows that were left out, rejected lines, and revisions, are
    added up: each job counts its own.
    """
    missing = sorted({name for part in parts for name in part["missing"]})
    expected = max(max(part["expected"], len(part["missing"])) for part in parts)
    joined: Json = {
        "expected": expected,
        "reported": max(0, min(min(part["reported"] for part in parts), expected - len(missing))),
        "missing": missing,
        **{count: sum(part.get(count, 0) for part in parts) for count in _COUNTS},
        "status": min((part["status"] for part in parts), key=_STATUSES.index),
        "semantics": " / ".join(sorted({part["semantics"] for part in parts})),
    }
    backfilled = max(part.get("backfilled", 0) for part in parts)
    return joined | ({"backfilled": backfilled} if backfilled else {})
