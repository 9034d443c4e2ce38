"""Whose a job is, and what becomes of its record only by its creator's orders. Pure.

A job that was published by an order belongs to the key of that. Each agent holds every record of it that it hears of to
the orders in it: each version needs one, and its end; another publication of its name needs one of the same key, until
the job is over. So a member that speaks for the creator is believed by nobody. What the master decides itself (who it
is, from which interval on a version counts) is not the creator's to sign.

Jobs without an order, of releases before or of who has no key, are as they were: the later record counts.
"""

from __future__ import annotations

from elf.agents.errors import NotAdmittedError, NotCreatorError
from elf.agents.jobs.orders import Order, What, digest_of
from elf.agents.jobs.versions import Version
from elf.agents.language.own_functions import fingerprint
from elf.agents.wire.records import JobRecord

__all__ = ["Order", "check_own", "check_stamp", "check_successor", "ended", "require_order", "require_publisher"]

#: So far ahead of our clock a peer's record may be stamped. A clock that is wrong by a time zone goes on; and whoever
#: makes a record stamps it later than the ones known, which needs room above them.
AHEAD_MS = 24 * 3_600_000
#: So much sooner than its creator's clock said a stopped job may end by the master's.
EARLY_MS = 600_000


def check_stamp(version: int, job: JobRecord | None, now_ms: int) -> None:
    """Hold the stamp of a record that another agent tells to our clock.

    Args:
        version: of the record.
        job: that it is of, if it is of one.
        now_ms: our clock.

    Raises:
        NotAdmittedError: it is of a day that has not come, and would be the newest one until then.
    """
    if version > now_ms + AHEAD_MS:
        raise NotAdmittedError("it is stamped more than a day ahead of this agent's clock")
    if job is not None and job.stamp_ms != version:
        raise NotAdmittedError("it is stamped otherwise than the job in it")


def require_order(job: JobRecord, order: Order | None, *what: What) -> Order | None:
    """Require the order of a job's creator to do something with it; None if the job needs none.

    Raises:
        NotCreatorError: there is none, or another one's; the text names both keys.
    """
    if not job.owner:
        return None
    key, whose = job.definition.first.key, fingerprint(job.owner)
    if order is None:
        raise NotCreatorError(f"job {key} belongs to the creator's key {whose}: {what[0]} it with that key")
    if order.key != job.owner or not order.is_signed:
        given = fingerprint(order.key) if order.is_signed else "none that fits its signature"
        raise NotCreatorError(f"job {key} belongs to the creator's key {whose}, and this was asked with {given}")
    if order.what not in what or order.job != key or order.publication != job.publication:
        raise NotCreatorError(f"the order is to {order.what} {order.job}, and of no use to {what[0]} job {key} now")
    if order.made_ms <= job.ordered_ms:
        raise NotCreatorError(f"the order is not later than the last one of job {key}: it was used already")
    return order


def require_publisher(running: JobRecord, job: JobRecord) -> None:
    """Refuse to publish a job under the name of another key's; raises NotCreatorError."""
    if running.owner not in ("", job.owner):
        whose = f"belongs to the creator's key {fingerprint(running.owner)}"
        raise NotCreatorError(f"job {job.definition.first.key} {whose}: publish under another name, or with that key")


def ended(job: JobRecord, now_ms: int, order: Order | None) -> JobRecord:
    """Return the record that ends a job, by the order of its creator if it has one: to end it, or to publish the next.

    Raises:
        NotCreatorError: he has not ordered that.
    """
    if job.stopped:
        return job.tombstone(now_ms, job.ended)
    if order is None or order.what != "publish":
        require_order(job, order, "end")
    tombstone = job.tombstone(now_ms, order if job.owner else None)
    check_successor(job, tombstone)
    return tombstone


def check_own(job: JobRecord) -> None:
    """Hold a record to the orders in it, whatever was known of the job before.

    Raises:
        NotCreatorError: it is not as its creator has ordered.
    """
    published = job.published
    if published is None:
        return
    key = job.definition.first.key
    if (published.what, published.job, published.publication) != ("publish", key, job.publication):
        raise NotCreatorError(f"job {key} was published by the order of another job")
    if not published.is_signed:
        raise NotCreatorError(f"job {key} was published by an order that is not signed")
    ordered_ms = published.made_ms
    #: The definition of the version before; of the oldest one that is remembered nobody knows.
    before = None if job.history[0].what != "publish" else published.about
    for version in job.history:
        about, order = digest_of(version.definition), version.order
        if version.what == "publish" or _is_by_itself(version):
            is_right = about == before or (before is None and version.number != job.definition.version)
        else:
            is_right = order is not None and order.made_ms > ordered_ms and _is_of(job, order, version, about)
        _require(is_right, f"version {version.number} of job {key}")
        before, ordered_ms = about, ordered_ms if order is None else order.made_ms
    if job.stopped:
        _require(_may_end(job), f"the end of job {key}")


def check_successor(known: JobRecord | None, job: JobRecord, now_ms: int | None = None) -> None:
    """Hold a record of a job to its orders and to what is known of the job.

    Args:
        known: the newest record of it that is known.
        job: the one that is told.
        now_ms: our clock; None where agents have to say the same of one record whenever they look.

    Raises:
        NotCreatorError: it is not as the creator has ordered.
    """
    check_own(job)
    key = job.definition.first.key
    if job.owner and job.stopped and job.ended is None and now_ms is not None:
        stop = job.history[-1].order
        assert stop is not None
        _require(now_ms + EARLY_MS >= stop.made_ms + stop.keep_ms, f"the end of job {key}")
    if known is None or not known.owner:
        return
    if known.tree == job.tree:
        _require(job.published == known.published, f"that job {key} has another creator")
        _require(job.stopped or not known.stopped, f"that job {key} goes on after its end")
        numbers = {version.order: version.number for version in known.history if version.order is not None}
        again = all(numbers.get(each.order, each.number) == each.number for each in job.history if each.order)
        _require(again and job.definition.version >= known.definition.version, f"the versions of job {key}")
    elif job.owner == known.owner:
        assert job.published is not None
        assert known.published is not None
        _require(job.published.made_ms > known.published.made_ms, f"job {key}, published before,")
    else:
        _require(known.stopped, f"another publication of job {key}")


def _is_of(job: JobRecord, order: Order, version: Version, about: str) -> bool:
    of = order.key, order.what, order.job, order.publication, order.about
    return of == (job.owner, version.what, job.definition.first.key, job.publication, about) and order.is_signed


def _is_by_itself(version: Version) -> bool:
    """Tell whether agents have stopped a job themselves, for a function that it brings along runs no more."""
    return version.is_stopped and bool(version.why) and bool(version.definition.functions) and version.order is None


def _may_end(job: JobRecord) -> bool:
    """Tell whether a job is over by an order, or by that of a stop whose time is over."""
    order = job.ended
    if order is None:
        return job.history[-1].is_stopped and job.history[-1].order is not None
    if order.key != job.owner or order.job != job.definition.first.key or not order.is_signed:
        return False
    is_next = order.what == "publish" and order.made_ms > job.ordered_ms and order.publication != job.publication
    return is_next or (order.what == "end" and order.publication == job.publication)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise NotCreatorError(f"{what} is not by an order of its creator")
