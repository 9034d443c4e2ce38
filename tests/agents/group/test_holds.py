"""A job is held for one publisher at a time, not for ever, and not too many are."""

from elf.agents.group.holds import HOLD_MS, HOLDS_MAX, Holds
from elf.agents.wire.placement import Weigh

APP = b"a" * 20


def test_a_hold_ends_by_itself_and_its_owner_may_renew_it() -> None:
    holds = Holds()
    assert holds.take(Weigh(APP, "a"), 0) is None
    assert holds.take(Weigh(APP, "b"), HOLD_MS - 1) == "a"
    assert holds.take(Weigh(APP, "a"), HOLD_MS - 1) is None
    assert holds.take(Weigh(APP, "b"), HOLD_MS) == "a"
    assert holds.take(Weigh(APP, "b"), 2 * HOLD_MS - 1) is None


def test_only_the_owner_lets_go() -> None:
    holds = Holds()
    holds.take(Weigh(APP, "a"), 0)
    assert holds.take(Weigh(APP, "b", hold=False), 0) == "a"
    assert holds.take(Weigh(APP, "a", hold=False), 0) is None
    assert holds.take(Weigh(APP, "b"), 0) is None


def test_a_flood_of_holds_is_bounded() -> None:
    holds = Holds()
    for number in range(HOLDS_MAX + 10):
        holds.take(Weigh(number.to_bytes(20), "a"), 0)
    assert holds.take(Weigh((0).to_bytes(20), "b"), 0) is None
    assert holds.take(Weigh((HOLDS_MAX + 9).to_bytes(20), "b"), 0) == "a"
