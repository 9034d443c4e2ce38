"""The choices of one node in a tree: whom it asks for a place, whom it takes in, sends on or gives away.

Owns no state and sends nothing; `elf.overlay.tree.machine` carries the choices out. Everything rests on one order,
`rank`: an edge always leads from a higher rank to a strictly lower one, so no choice made here, or by a peer, can close
a cycle. OVERLAY sections 3 (bounded progress) and 4 (order-preserving push-down).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from elf.overlay.ids import Contact, distance, prefix_bits
from elf.overlay.messages import Heartbeat, Reason
from elf.overlay.routing import GAIN_BITS, NEAREST_TIED, View

#: Share of the joiners with a first candidate beyond the bound that draw among the nearest few instead of asking it.
REDRAW_SHARE = 0.6
#: A node with less than half of its places taken has room for its grandchildren.
ROOM_SHARE = 2
#: A child stays with a parent for so long at least: while a tree is built, others may be coming who take those places.
CLIMB_AFTER_MS = 10_000
#: A neighbour of a root knows no contact that gains more bits of prefix than this.
NEIGHBOUR_BITS = 1


@dataclass(frozen=True, slots=True)
class Seat:
    """One child as a choice sees it."""

    peer: Contact
    load: int


@dataclass(frozen=True, slots=True)
class TakeIn:
    """Accept the joiner; `instead_of` is the child that goes under it to make room."""

    instead_of: Contact | None


@dataclass(frozen=True, slots=True)
class SendOn:
    """No room: the joiner goes under this child."""

    to: Contact


def rank(contact: Contact, key: bytes, root: Contact | None) -> int:
    """Return the place of a contact in the order of a tree: the recorded root first, then by distance to the key.

    XOR with a fixed key maps ids one to one, so two contacts never share a rank.
    """
    return -1 if contact == root else distance(contact.id, key)


def place(
    joiner: Contact, children: Iterable[Seat], fan_in_max: int, key: bytes, root: Contact | None
) -> TakeIn | SendOn:
    """Choose what becomes of a joiner that ranks after us, by order-preserving push-down.

    With no room left it goes under the least loaded child that ranks before it. If few children do, it takes the place
    of the last child, which goes under the joiner: sent on, agents near the key would form a chain under the one or
    two that are nearest. O(children).
    """
    seats = list(children)
    if len(seats) < fan_in_max:
        return TakeIn(None)
    own = rank(joiner, key, root)
    ranked = [(rank(seat.peer, key, root), seat) for seat in seats]
    before = [(seat.load, order, seat.peer) for order, seat in ranked if order < own]
    if before and len(before) * 2 >= fan_in_max:
        return SendOn(min(before, key=lambda entry: entry[:2])[2])
    return TakeIn(max(ranked, key=lambda entry: entry[0])[1].peer)


def has_room(load: int, fan_in_max: int) -> bool:
    """Whether a node with so many children has places for grandchildren, too."""
    return load < fan_in_max // ROOM_SHARE


def climbs(beat: Heartbeat, since_ms: int, rng: random.Random) -> bool:
    """Choose whether a child goes up to its grandparent, if that has room, at a heartbeat of its parent.

    Where all start at once nobody knows many, and trees become chains, up to 11 deep with 64 agents. They become flat
    again here: who keeps grandchildren has half of its places taken. In the mean one child of a parent goes at a time,
    or all would ask for the same places. `since_ms`: how long ago it asked this parent.
    """
    return beat.down and beat.room and since_ms >= CLIMB_AFTER_MS and rng.random() * beat.load < 1


def with_root(candidates: Sequence[Contact], me: Contact, key: bytes, root: Contact | None) -> list[Contact]:
    """Add a recorded root, which all members know and few tables hold, to candidates in the order of `bounded`.

    First for the root's neighbours, who know nobody much nearer to the key than they are: they find places under the
    root, and a hop is saved for all below them. Last, as the last resort, for everybody else: asked by more, the root
    would mostly redirect. O(candidates).
    """
    if root is None or root == me or root in candidates:
        return list(candidates)
    nearest = max((prefix_bits(contact.id, key) for contact in candidates), default=0)
    is_neighbour = nearest <= prefix_bits(me.id, key) + NEIGHBOUR_BITS and distance(root.id, key) < distance(me.id, key)
    return [root, *candidates] if is_neighbour else [*candidates, root]


def first_choice(
    candidates: Sequence[Contact], me: Contact, key: bytes, fan_in_max: int, rng: random.Random
) -> Contact:
    """Return whom to ask, given at least one candidate in the order of `routing.bounded`.

    The first, if they are few for the places a root has: we are among its nearest then, who would otherwise
    hang under each other in a chain while farther agents, with few children, fill those places. Else one at random of
    those on the first one's level: agents with the same contacts would otherwise all choose the nearest of them, and
    the warmer their tables, the more so. Where the first is beyond the bound, and comes first as the root or one of the
    nearest few, now and then another of these: else too many would ask the root. O(candidates).
    """
    if len(candidates) <= fan_in_max // 2:
        return candidates[0]
    level = prefix_bits(candidates[0].id, key)
    if level > prefix_bits(me.id, key) + GAIN_BITS and rng.random() < REDRAW_SHARE:
        return rng.choice(candidates[:NEAREST_TIED])
    alike = list(takewhile(lambda contact: prefix_bits(contact.id, key) == level, candidates))
    return rng.choice(alike)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where we stand when a JOIN comes in; `rooted`: we are the root and hold what a root must."""

    me: Contact
    key: bytes
    root: Contact | None
    rooted: bool


def refusal(
    joiner: Contact, theirs: Contact | None, standing: Standing, view: View
) -> tuple[Reason, Contact | None] | None:
    """Return why we may not be the parent of a joiner whatever room there is, and who may; None if we may.

    `theirs`: the recorded root it knows. A joiner is only ever pointed to what ranks before it.
    """
    me, key, root = standing.me, standing.key, standing.root
    other_root = root if root not in (me, joiner) else None
    if theirs != root:
        return Reason.ROOT_IS, other_root
    if root == me and not standing.rooted:
        return Reason.NOT_MINE, None  # we are the recorded master but were not told yet (just restarted)
    own = rank(joiner, key, root)
    if joiner.id != me.id and rank(me, key, root) < own:
        return None
    before = (contact for contact in view(key) if contact != joiner and rank(contact, key, root) < own)
    return Reason.NOT_MINE, next(before, other_root)
