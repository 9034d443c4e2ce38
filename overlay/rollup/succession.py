"""Where an agent begins that takes the place of one whose disk is lost: right after what was counted of that. Pure.

All later lines of its log are the successor's to bring, so a mistake here counts events twice, or loses them. OVERLAY
6.6 ("agent rebuilt with empty disk").
"""

from __future__ import annotations

from elf.overlay.contract import NEVER, RollupState, RosterEntry


def counted_through(entry: RosterEntry, committed: int) -> int | None:
    """Return the last interval that a member was counted in; None if it never was.

    Args:
        entry: the root's account of it.
        committed: the last commit that the account covers.
    """
    through = committed if entry.until is None else entry.until
    for absence in sorted(entry.absences, key=lambda run: -run.through):
        if absence.through == through:
            through = absence.after
    return through if through > max(entry.admitted, NEVER) else None


def brought_through(rollup: RollupState, agent: str, floor: int) -> int:
    """Return the last interval that an agent, now excluded, brought anything of.

    Args:
        rollup: what is committed.
        agent: the one whose disk is lost.
        floor: what excluding it returned (`OverlayNode.exclude`). Once that is committed, and nothing more, its
            account still says whether it is in there.
    """
    account = rollup.roster.get(agent) or rollup.retired.get(agent)
    if floor > rollup.committed or account is None:
        return floor
    # It was away: nothing of its later intervals was ever counted.
    counted = counted_through(account, rollup.committed)
    return NEVER if counted is None else counted
