"""Who should be a member of a root group: the nearest agents that live, an odd number of them with a vote. Pure.

The leader asks now and then; each answer is one step that majorities before and after it have a member in common for.
OVERLAY 6.5. Differs from it: with two or four agents one of them only listens. A second vote of two would stop the job
whenever either agent is away, and a fourth adds nothing that three do not bear; the listener's copy is as good.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from elf.overlay.errors import OverlayError
from elf.overlay.group.messages import Seat
from elf.overlay.ids import distance

#: Members of a group, if there are so many agents: two may fail at a time.
SIZE = 5


def new_voters(me: str, seats: Sequence[Seat], wanted: Sequence[Seat]) -> set[str]:
    """Return who would have a vote that has none yet.

    Raises:
        OverlayError: the step is too wide: two majorities without a common member would be possible. Only from a single
            vote, which is ours, any step is safe: nobody else could decide anything, and we know the step.
    """
    before = {seat.agent for seat in seats if seat.votes}
    after = {seat.agent for seat in wanted if seat.votes}
    if not after or (len(before ^ after) > 1 and before != {me}):
        raise OverlayError("the members of a root group change one vote at a time")
    return after - before


def next_seats(
    me: str,
    key: bytes,
    seats: Sequence[Seat],
    near: Sequence[Seat],
    has: Collection[str],
    silent: Collection[str],
    gone: Collection[str],
) -> tuple[Seat, ...] | None:
    """Return the members after the next step; None if nothing is to be changed.

    Args:
        me: the leader.
        key: whose nearest agents are wanted.
        seats: the members now.
        near: agents that could be members, nearest first.
        has: members that have everything that is decided.
        silent: members not heard of for a while: they are replaced if there is somebody.
        gone: members not heard of for so long that the group does without them.
    """
    moved = {seat.address: seat.agent for seat in near}
    dead = {seat.agent for seat in seats if seat.agent in silent or moved.get(seat.address, seat.agent) != seat.agent}
    live = [seat for seat in seats if seat.agent not in dead]
    known = {seat.agent for seat in seats}
    left = [seat for seat in seats if seat.votes or seat.agent not in dead]
    spare = [replace(seat, votes=False) for seat in near if seat.agent not in known][: max(0, SIZE - len(live))]
    if spare or len(left) < len(seats):
        return (*left, *spare)
    voters = [seat for seat in seats if seat.votes]
    ready = [seat for seat in live if not seat.votes and seat.agent in has]
    ready.sort(key=lambda seat: distance(seat.contact.id, key))
    goal = _odd(min(SIZE, len(live)))
    if [seat.agent for seat in voters] == [me]:
        # From a single vote any step is safe; one step instead of four, and no moment with two votes.
        complete = len(ready) == len(live) - 1
        return _promoted(seats, ready[: goal - 1]) if complete and goal > 1 else None
    alive = [seat for seat in voters if seat.agent not in dead]
    if len(alive) < goal and ready:
        return _promoted(seats, ready[:1])
    removable = [seat for seat in voters if seat.agent in dead and seat.agent != me]
    if len(alive) < _odd(min(SIZE, len(voters))):
        removable = [seat for seat in removable if seat.agent in gone]
    return tuple(seat for seat in seats if seat != removable[0]) if removable else None


def _odd(count: int) -> int:
    return count - 1 + count % 2


def _promoted(seats: Sequence[Seat], chosen: Collection[Seat]) -> tuple[Seat, ...]:
    return tuple(replace(seat, votes=seat.votes or seat in chosen) for seat in seats)
