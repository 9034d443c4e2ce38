"""Where an agent begins that takes the place of one whose disk is lost: right after what was counted of that. Pure.

All later lines of its log are the successor's to bring, so a mistake here counts events twice, or loses them. OVERLAY
6.6 ("agent rebuilt with empty disk").
"""

from __future__ import annotations

from elf.overlay.contract import NEVER, RollupState, RosterEntry

#: A run of commits had an agent's data, had not, had some of it, or is not all made.
COUNTED, MISSING, BOTH, OPEN = "counted", "missing", "both", "open"


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


def fate_of(rollup: RollupState, agent: str, previous: int, through: int) -> str:
    """Say what commits with previous < interval <= through had of an agent: one of the four words above.

    Args:
        rollup: what is committed.
        agent: the member.
        previous: the run begins after this interval.
        through: it ends with this one.
    """
    if rollup.committed < through:
        return OPEN
    account = rollup.roster.get(agent) or rollup.retired.get(agent)
    if account is None:
        return MISSING
    missed = [(NEVER, account.admitted), *((run.after, run.through) for run in account.absences)]
    if account.until is not None:
        missed.append((account.until, -NEVER))
    reached, lacks = previous, False
    for after, end in sorted(missed):
        lacks = lacks or max(after, previous) < min(end, through)
        reached = max(reached, end) if after <= reached else reached
    return MISSING if reached >= through else BOTH if lacks else COUNTED


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
