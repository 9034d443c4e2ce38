"""What must hold of the versions of a job that is changed while it runs, looked at from outside.

One order everywhere, no interval of two versions, windows emptied where a version says so and nowhere else, and whoever
heard of a version too late named wherever its rows were left out. Each check returns sentences about what is wrong.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from elf.overlay.contract import NEVER
from elf.overlay.sim.copies import Copy
from elf.overlay.sim.truth import Truth
from elf.overlay.sim.versions import FIRST, Version, counts, turns, version_at

#: Sentences that one check returns at most.
SENTENCES_MAX = 10


def check_order(versions: Sequence[Version], known: Mapping[str, Sequence[Version]]) -> list[str]:
    """Check that there is one order of versions: numbers without gaps or repetitions, and no way back in time.

    Args:
        versions: all that were decided.
        known: what others know, by who that is: the oldest of them, as far as they have heard.
    """
    wrong = [] if tuple(versions[:1]) == FIRST else [f"the first version is {versions[:1]}"]
    for earlier, later in itertools.pairwise(versions):
        if later.number != earlier.number + 1:
            wrong.append(f"version {later.number} follows version {earlier.number}")
        if later.since < earlier.since or later.begins < earlier.begins:
            wrong.append(f"version {later.number} counts from {later.since} on, before version {earlier.number}")
    wrong += [
        f"{count} versions answer one question, {asked}"
        for asked, count in Counter(version.asked for version in versions[1:]).items()
        if count > 1
    ]
    for name, theirs in known.items():
        if tuple(theirs) != tuple(versions[: len(theirs)]):
            wrong.append(f"{name} knows other versions than were decided: {theirs}")
    return wrong[:SENTENCES_MAX]


def check_intervals(copy: Copy, versions: Sequence[Version]) -> list[str]:
    """Check that each interval committed holds rows of one kind only: of that which it has by the versions decided."""
    wrong: list[str] = []
    kinds: dict[int, set[int]] = {}
    for row in copy.rows:
        kinds.setdefault(row.interval, set()).add(row.kind)
    for interval, found in kinds.items():
        wanted = version_at(versions, interval).kind
        if found != {wanted}:
            wrong.append(f"interval {interval} has rows of the kinds {sorted(found)}, not of {wanted} alone")
    wrong += [f"{row} was left out and counts" for row in copy.superseded if counts(versions, row.kind, row.interval)]
    return wrong[:SENTENCES_MAX]


def check_resets(copy: Copy, versions: Sequence[Version]) -> list[str]:
    """Check that windows were emptied once at each boundary where they begin anew, and hold all since the last one."""
    wrong: list[str] = []
    due = turns(versions, NEVER, copy.rollup.committed) if copy.commits else []
    if copy.emptied != due:
        wrong.append(f"windows were emptied at {copy.emptied}, not at {due}")
    begins = due[-1] if due else NEVER
    window = Counter(row.item for row in copy.rows if row.interval >= begins)
    if Counter(copy.window) != window:
        wrong.append(f"the window since {begins} lacks {window - Counter(copy.window)}")
    return wrong


def check_changes(
    truth: Truth,
    known: Mapping[str, Sequence[Version]],
    copies: Mapping[str, Copy],
    lost: Collection[str],
    *,
    complete: bool,
) -> list[str]:
    """Check all of this, of what was decided and of each member's copy; and that labels name who was late.

    `lost`: items that may have been lost with a disk. Of one that was in no commit, and whose agent had not said yet
    since when it counted by the version, nobody is left who could. `complete`: see `Truth.unnamed`.
    """
    versions = truth.versions
    wrong = check_order(versions, {**known, **{f"the copy of {name}": copy.versions for name, copy in copies.items()}})
    for name, copy in {"all": truth.copy, **copies}.items():
        found = check_intervals(copy, versions) + check_resets(copy, versions)
        wrong += [f"of {name}: {text}" for text in found]
    stale = truth.stale()
    seen, since = {row.item for row in truth.copy.superseded}, truth.copy.since
    told = {
        item
        for item, made in stale.items()
        if made.agent in since.get(version_at(versions, made.row.interval).kind, {})
    }
    owed = [made for item, made in stale.items() if item in seen | told or item not in lost]
    wrong += truth.unnamed(owed, complete=complete)
    wrong += [f"{row} counts and was read by another version" for row in truth.copy.rows if row.item in stale]
    return wrong[:SENTENCES_MAX]
