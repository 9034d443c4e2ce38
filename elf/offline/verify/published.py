"""What a published result says of itself: its status, its event time, and what its label announces. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

#: A Result as JSON has it.
Result = Mapping[str, Any]
#: The statuses of a window that has closed.
CLOSED = ("final", "final_incomplete", "revised")


def status_of(result: Result) -> str:
    """Return a result's status."""
    return str(result["completeness"]["status"])


def version_of(result: Result) -> int | None:
    """Return the version of the job that counted a result; None from an agent that does not tell."""
    return result.get("version")


def span_of(result: Result) -> tuple[int | None, int | None]:
    """Return a result's event time; a job without windows says by `through_ms` how far it has counted."""
    window = result.get("window")
    if window is None:
        return None, result.get("through_ms")
    return int(window["start_ms"]), int(window["end_ms"])


def bounds_of(result: Result) -> tuple[int, int]:
    """Return the event time of a result of a job with windows."""
    start_ms, end_ms = span_of(result)
    assert start_ms is not None and end_ms is not None
    return start_ms, end_ms


def label_words(result: Result) -> list[str]:
    """Return what the label announces: reasons for which the result may lack events that the archive has."""
    completeness = result["completeness"]
    said = [
        f"{part} {completeness[part]}"
        for part in ("late", "shed", "rejected", "gaps", "void", "backfilled")
        if completeness.get(part)
    ]
    said += [f"mistyped {column} {count}" for column, count in completeness.get("mistyped", {}).items()]
    semantics = completeness.get("semantics", "exactly-once")
    said += [semantics] if semantics != "exactly-once" else []
    missing = completeness.get("missing") or []
    reported, expected = completeness.get("reported", 0), completeness.get("expected", 0)
    if missing:
        said.append("missing " + " ".join(map(str, missing)))
    elif reported < expected:
        said.append(f"{reported} of {expected} agents reported")
    return said


def unfit_words(result: Result, judged: Collection[str] = ()) -> list[str]:
    """Say what became of values that do not fit their types: of the columns `judged` Spark has read what they are.

    Of others it cannot judge: values that agents could not read are null in their archives, too.
    """
    ends = {True: "Spark read their texts", False: "they are null in the archive, too"}
    return [
        f"{count} values of {column} do not fit its type: {ends[column in judged]}"
        for column, count in result["completeness"].get("mistyped", {}).items()
    ]
