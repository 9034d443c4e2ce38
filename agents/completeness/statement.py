"""What users are told of a result's completeness: a label with its status, and what is said of results of others. Pure.

Only a window that is closed and lacks nothing is `final`; docs/RESULTS.md has the meaning of each field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from elf.agents.completeness.label import Label
from elf.agents.completeness.overflows import NONE, Overflows
from elf.agents.completeness.tallies import summed
from elf.agents.errors import IncompleteError

Json = dict[str, Any]

#: From worst to best.
_STATUSES = ("open", "partial", "final_incomplete", "revised", "final")
#: What is added up where jobs are joined: each counts its own.
_COUNTS = ("late", "shed", "rejected", "gaps", "void", "revision")


def stated(
    label: Label,
    gaps: int,
    names: Callable[[str], str],
    semantics: str,
    *,
    begun: bool,
    closed: bool,
    awaited: bool,
    overflows: Overflows = NONE,
    is_unread: bool = False,
) -> Json:
    """Say how complete a result is.

    Args:
        label: its.
        gaps: how many touch it; a lost pane is one more.
        names: turns an agent id into a name for people.
        semantics: of the job.
        begun: whether it has counted anything.
        closed: whether the window is.
        awaited: it is to be called partial: agents that it lacks may still bring their data.
        overflows: values that are not in it.
        is_unread: of some agents that are missing, or waited for, no line is read, for nobody knows what they are.
    """
    gaps += label.damaged
    causes = [
        cause for cause, lacks in (("format", is_unread), ("lines", label.misread), ("types", label.mistyped)) if lacks
    ]
    lacking = bool(label.missing or label.shed or label.void or gaps or causes or overflows.count)
    status = "open" if not closed else "final_incomplete" if lacking else "revised" if label.revision else "final"
    completeness: Json = {
        "expected": label.expected,
        # Of agents that come and go more may be missing than were ever expected at a time.
        "reported": max(0, label.expected - len(label.missing)) if begun else 0,
        "missing": [names(agent) for agent in label.missing],
        "late": label.late,
        "shed": label.shed,
        "rejected": label.rejected,
        "gaps": gaps,
        "void": label.void,
        "revision": label.revision,
        "status": "partial" if awaited else status,
        "semantics": semantics,
    }
    rare = {
        "backfilled": label.backfilled,
        "rejected_of": label.lines if label.rejected else 0,
        "mistyped": dict(label.mistyped),
        "causes": causes,
        "overflows": msgspec.to_builtins(overflows) if overflows.count else None,
    }
    return completeness | {name: value for name, value in rare.items() if value}


def of_side(known: Json, gaps: int, side: str, term: int, *, is_open: bool) -> Json:
    """Say how complete a result of one side of a split job is: partial, whatever it holds.

    While its window is open there is nobody to name yet who lacks anything, as with a result of the job's own master.
    """
    return known | {
        "status": "open" if is_open else "partial",
        "side": side,
        "term": term,
        "gaps": known["gaps"] + gaps,
    }


def joined(parts: Sequence[Json]) -> Json:
    """Join what is said of results of one window, at least one, of several jobs: no more than the least complete.

    Agents that any of them lacks are missing.
    """
    missing = sorted({name for part in parts for name in part["missing"]})
    # Of agents that come and go more may be missing than were ever expected at a time.
    expected = max(max(part["expected"], len(part["missing"])) for part in parts)
    known: Json = {
        "expected": expected,
        "reported": max(0, min(min(part["reported"] for part in parts), expected - len(missing))),
        "missing": missing,
        **{count: sum(part.get(count, 0) for part in parts) for count in _COUNTS},
        "status": min((part["status"] for part in parts), key=_STATUSES.index),
        "semantics": " / ".join(sorted({part["semantics"] for part in parts})),
    }
    overflows = [msgspec.convert(part["overflows"], Overflows) for part in parts if "overflows" in part]
    rare = {
        "backfilled": max(part.get("backfilled", 0) for part in parts),
        "rejected_of": sum(part.get("rejected_of", 0) for part in parts),
        "mistyped": dict(summed(tuple(part.get("mistyped", {}).items()) for part in parts)),
        "causes": sorted({cause for part in parts for cause in part.get("causes", ())}),
        "overflows": msgspec.to_builtins(Overflows.joined(overflows)) if overflows else None,
    }
    return known | {name: value for name, value in rare.items() if value}


def require_complete(job: str, completeness: Json) -> None:
    """Refuse a result that lacks anything it should have, or whose window is still open.

    Raises:
        IncompleteError: its text says what is lacking.
    """
    status = completeness["status"]
    if status in ("final", "revised"):
        return
    reported = f"{completeness['reported']} of {completeness['expected']} agents reported"
    states = {"open": "its window is open", "partial": "it is one side's of a job whose agents are split"}
    facts = [states.get(status, "its window is closed"), reported]
    if completeness["missing"]:
        facts.append(f"missing: {', '.join(completeness['missing'])}")
    facts += [
        f"{what}: {completeness[what]}" for what in ("shed", "rejected", "gaps", "void") if completeness.get(what)
    ]
    facts += [f"values of {column} that do not fit: {n}" for column, n in completeness.get("mistyped", {}).items()]
    if "overflows" in completeness:
        facts += msgspec.convert(completeness["overflows"], Overflows).sentences()
    raise IncompleteError(f"the result of {job} is not complete ({'; '.join(facts)})")
