"""What a store makes of control entries, as one value: simulated agents keep it, real stores are held to it. Pure."""

from __future__ import annotations

from elf.overlay.contract import ControlEntry, ControlState, LogEntry


def handled(state: ControlState, entry: ControlEntry) -> ControlState:
    """Return what is to be stored once an entry was handled; O(entries retained)."""
    if entry.retain_above is None:
        return ControlState(entry.mark, entry.mark)
    kept = [old for old in state.entries if old.mark > entry.retain_above]
    return ControlState(entry.mark, entry.retain_above, (*kept, LogEntry(entry.mark, entry.body)))
