"""What operators have purged: orders that every agent keeps, and holds what it hears of jobs and agents to. Pure.

What is purged is named as its record is: `job/CREATOR/NAME`, `member/AGENT_ID`. A purge is of what there was when it
was ordered: of a job, what was published before; of an agent, what was said of it before. An agent that lives says so
again, and a name may be published anew. Only keys that an agent's settings list are operators' to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from elf.agents.errors import NotAdmittedError, NotCreatorError
from elf.agents.jobs.orders import Order
from elf.agents.language.own_functions import fingerprint
from elf.agents.wire.records import JOB, MEMBER, JobRecord
from elf.agents.wire.replicas import Request
from elf.overlay.contract import Record
from elf.overlay.decoding import read_msgpack

PREFIX = "purge/"
TARGETS = (JOB, MEMBER)


class Purge(Request, frozen=True, tag="purge"):
    """Purge something; asked of every agent. The answer is `{"agent": name, "purged": whether, "why": if not}`."""

    order: Order


class Purges:
    """The purges that one agent knows of; the newest of each target counts.

    Args:
        operators: name -> public key of those whose purges count here.
    """

    def __init__(self, operators: Mapping[str, str]) -> None:
        #: May be set.
        self.operators: Mapping[str, str] = dict(operators)
        self._orders: dict[str, Order] = {}

    def operator(self, order: Order) -> str:
        """Return the name of the operator who has ordered a purge.

        Raises:
            NotCreatorError: it is none of an operator of this agent.
        """
        if order.what != "purge" or not order.is_signed or not order.job.startswith(TARGETS):
            raise NotCreatorError("this is no signed order to purge a job or an agent")
        found = next((name for name, key in self.operators.items() if key == order.key), None)
        if found is None:
            known = ", ".join(sorted(self.operators)) or "nobody"
            raise NotCreatorError(
                f"key {fingerprint(order.key)} is no operator's of this agent, whose settings list {known} under "
                "[api] operators"
            )
        return found

    def is_new(self, order: Order) -> bool:
        """Whether neither an order nor a later one of its target is known."""
        known = self._orders.get(order.job)
        return known is None or known.made_ms < order.made_ms

    def take(self, order: Order) -> None:
        """Keep an operator's order, unless a later one is known."""
        if self.is_new(order):
            self._orders[order.job] = order

    def orders(self) -> Iterable[Order]:
        """Return the orders that count."""
        return self._orders.values()

    def check_job(self, job: JobRecord) -> None:
        """Refuse what was published before its job was purged; raises NotAdmittedError."""
        order = self._orders.get(JOB + job.definition.first.key)
        began_ms = job.published_ms if job.published is None else job.published.made_ms
        if order is not None and began_ms <= order.made_ms:
            raise NotAdmittedError(f"job {job.definition.first.key} was purged by an operator after it was published")

    def check_member(self, agent_id: str, version: int) -> None:
        """Refuse what was said of an agent before it was purged; raises NotAdmittedError."""
        order = self._orders.get(MEMBER + agent_id)
        if order is not None and version <= order.made_ms:
            raise NotAdmittedError("the agent was purged by an operator after that was said of it")


def purge_record(order: Order) -> Record:
    """Return the record that tells the agents of a source of a purge."""
    return Record(PREFIX + order.job, order.made_ms, msgspec.msgpack.encode(order))


def order_of(record: Record) -> Order:
    """Read the record of a purge, whoever has ordered it.

    Raises:
        NotAdmittedError: it is none that is signed.
    """
    try:
        order = read_msgpack(record.body, Order)
    except msgspec.DecodeError as error:
        raise NotAdmittedError(f"it is no order: {error}") from None
    if order.what != "purge" or purge_record(order) != record or not order.is_signed:
        raise NotAdmittedError("it is no signed order to purge that")
    return order
