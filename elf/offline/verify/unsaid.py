"""Values in the archive that do not fit their column's type, and labels that do not say so."""

from __future__ import annotations

from elf.offline.grid import Window
from elf.offline.unfit_values import UnfitTimes
from elf.offline.verify.lacks import Label, announces
from elf.offline.verify.versions import Counting

#: What a label may say instead: these events are not in the result, so neither are their values.
_EXCUSES = ("late", "damaged")


def unsaid(unfit: UnfitTimes, window: Window, label: Label, counting: Counting) -> list[str]:
    """Say of which columns a window has such values though its label, which lacks nothing else, names none.

    Args:
        unfit: when such values are.
        window: the window.
        label: what its result says of it.
        counting: what the version counts that made it.
    """
    if announces(label) or any(label.get(word) for word in _EXCUSES):
        return []
    said = label.get("mistyped") or {}
    counts = {name: _count(unfit, name, window, counting) for name in unfit.columns if not said.get(name)}
    return [f"{count} values of {name} do not fit its type" for name, count in sorted(counts.items()) if count]


def _count(unfit: UnfitTimes, column: str, window: Window, counting: Counting) -> int:
    """Count a column's values in a window, of the time that the version counts."""
    paused = sum(unfit.count(column, *run) for run in counting.paused(window))
    return unfit.count(column, counting.within(window)[0], window[1]) - paused
