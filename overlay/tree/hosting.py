"""A parent's answer to a JOIN: taken in, sent on, or refused. Pure; the choices are `elf.overlay.tree.policy`'s."""

from __future__ import annotations

from elf.overlay.effects import ChildDown, ChildUp, Effect, Send
from elf.overlay.ids import Contact
from elf.overlay.messages import Accept, Drop, Join, Reason, Redirect
from elf.overlay.routing import View
from elf.overlay.tree.edges import Edges
from elf.overlay.tree.policy import SendOn, Standing, place, refusal


def answer_join(
    joiner: Contact,
    join: Join,
    theirs: Contact | None,
    edges: Edges,
    standing: Standing,
    reign: int,
    view: View,
    now_ms: int,
) -> list[Effect]:
    """Return what a JOIN brings about; `edges` are ours, to which a new child is added.

    `theirs`: the recorded root that the joiner knows. `reign`: which of several recorded roots ours is. `view`: whom we
    know nearer to the key.
    """
    app, known = join.app, edges.children.get(joiner.id)
    if known is not None and join.epoch < known.epoch:
        return []
    refused = refusal(joiner, theirs, standing, view)
    if refused is not None:
        reason, to = refused
        if reason is Reason.ROOT_IS and reign > join.reign and standing.root != joiner:
            to = standing.root  # ourselves, maybe: the joiner has not heard that the root it knows is one no more
        address = to.address if to is not None else None
        return [Send(joiner, Redirect(app, join.epoch, address, reason, reign if reason is Reason.ROOT_IS else 0))]
    load = join.load
    displaced: list[Effect] = []
    if known is None:
        choice = place(joiner, edges.seats(), edges.fan_in_max, app, standing.root)
        if isinstance(choice, SendOn):
            edges.children[choice.to.id].load += 1  # until its next heartbeat says what it really has
            return [Send(joiner, Redirect(app, join.epoch, choice.to.address, Reason.FULL))]
        if choice.instead_of is not None:
            edge = edges.children.pop(choice.instead_of.id)
            displaced = [Send(edge.peer, Drop(app, edge.epoch, joiner.address)), ChildDown(edge.peer)]
            load += 1
    above = edges.above
    effects: list[Effect] = [Send(joiner, Accept(app, join.epoch, above.address if above else None)), *displaced]
    if known is None or join.epoch > known.epoch:
        edges.add_child(joiner, join.epoch, load, now_ms)
        effects.append(ChildUp(joiner, join.epoch))
    return effects
