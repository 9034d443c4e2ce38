"""When an order of keys begins, grows, gives way to another and goes; the history's tests hold what it is for."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator

import polars as pl
import pytest

from elf.agents.jobs.versions import Versions
from elf.agents.master.panes import key_orders
from elf.agents.master.panes.key_orders import KeyOrders
from elf.agents.master.panes.past import Change, Past
from elf.agents.store.checksums import DamagedError
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, Panes
from elf.cbt import encode
from elf.cbt.placed import Placed, to_frame
from tests.agents.plans import events, plan_of

PLAN = plan_of("SELECT product, max(cents) AS m FROM clicks GROUP BY product, window(ts, '2 seconds')")
TEXT = plan_of("SELECT product, max(product) AS m FROM clicks GROUP BY product, window(ts, '2 seconds')")


@pytest.fixture
def past(tmp_path: pathlib.Path) -> Iterator[Past]:
    database = Database(tmp_path / "state.db")
    store = Panes(database)
    store.create(PLAN.definition.app_id, b"job", b"")
    yield Past(Versions.of(PLAN), store)
    database.close()


def frame_of(keys: Iterable[str]) -> pl.DataFrame:
    return PLAN.schema.merge([PLAN.reduce(events([(0, key, 1) for key in keys]))])


def change_at(through: int) -> Change:
    change = Change()
    change.frames[through] = PLAN.schema.empty()
    return change


def write(past: Past, orders: KeyOrders, change: Change) -> None:
    made = {place: encode(frame) for place, frame in change.made.items() if isinstance(frame, pl.DataFrame)}
    past.store.commit(past.app, b"", made, sorted(change.dropped))
    for place in (*change.made, *change.dropped):
        past.frames.forget(place)
    orders.changed(change)


def place(past: Past, orders: KeyOrders, through: int, keys: Iterable[str], *, new_max: int | None) -> Placed | None:
    change = change_at(through)
    frame = frame_of(keys)
    placed = orders.place(frame, change, new_max=new_max)
    if placed is not None:
        orders.check(placed, change)
        back = to_frame(placed, orders.read(placed.order, change), PLAN.schema).sort("k0")
        assert back.equals(PLAN.schema.at_zero(frame).sort("k0"))
    write(past, orders, change)
    return placed


def test_an_order_begins_with_what_was_worth_to_be_merged_and_grows_with_new_keys(past: Past) -> None:
    orders = KeyOrders(past)
    assert not orders.has_one() and place(past, orders, 3, "abcd", new_max=2) is None
    first = place(past, orders, 5, "abcd", new_max=None)
    assert first is not None and first.order == 5 and first.at is None and orders.has_one()
    second = place(past, orders, 6, "cdef", new_max=2)
    assert second is not None and second.order == 5 and second.height == 6
    assert place(past, orders, 7, "aghi", new_max=2) is None, "mostly new keys"
    assert place(past, orders, 7, [], new_max=None) is None
    orders = KeyOrders(past)
    assert (
        orders.has_one()
        and orders.read(5)["k0"].to_list()[4:] == to_frame(second, orders.read(5), PLAN.schema)["k0"].to_list()[2:]
    )
    third = place(past, orders, 8, "aghi", new_max=None)
    assert third is not None and third.order == 5 and third.height == 9, "worth it, and there is room"
    assert past.store.intervals(past.app, Kind.ORDER) == [5]


def test_an_order_that_is_long_for_what_is_placed_in_it_gives_way(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_orders, "ROWS_MIN", 3)
    monkeypatch.setattr(key_orders, "ROWS_SHARE_MAX", 2)
    orders = KeyOrders(past)
    old = place(past, orders, 1, "abcdef", new_max=None)
    assert old is not None
    assert place(past, orders, 2, "ab", new_max=2) is None
    new = place(past, orders, 2, "ab", new_max=None)
    assert new is not None and new.order == 2 and new.height == 2
    assert to_frame(old, orders.read(1), PLAN.schema).height == 6, "what was placed before goes on being so"
    assert place(past, orders, 2, "wxyz", new_max=None) is not None, "it still grows"
    assert place(past, orders, 2, "pqrs", new_max=None) is None, "no second one begins with a commit"
    assert orders.expired(1) == [] and orders.expired(2) == [(Kind.ORDER, 1)]
    change = change_at(3)
    change.dropped = set(orders.expired(2))
    write(past, orders, change)
    with pytest.raises(DamagedError, match="no order of keys 1"):
        orders.check(old)
    assert past.store.intervals(past.app, Kind.ORDER) == [2] and orders.expired(99) == []


def test_two_blocks_of_a_commit_share_what_an_order_becomes_with_it(past: Past) -> None:
    orders, change = KeyOrders(past), change_at(4)
    first = orders.place(frame_of("ab"), change, new_max=None)
    second = orders.place(frame_of("abcd"), change, new_max=None)
    assert first is not None and second is not None and first.order == second.order == 4
    assert (first.height, second.height, orders.read(4, change).height) == (2, 4, 4)
    assert not orders.has_one(), "nothing is durable yet"


def test_a_damaged_order_is_not_placed_in(past: Past) -> None:
    orders = KeyOrders(past)
    placed = place(past, orders, 1, "abcd", new_max=None)
    assert placed is not None
    short = orders.read(1).head(2)
    for block in (b"damaged", encode(short)):
        past.store.replace(past.app, {(Kind.ORDER, 1): block}, [])
        past.frames.forget((Kind.ORDER, 1))
        with pytest.raises(Exception, match=r"shorter|not a PAO block"):
            orders.check(placed)
    past.store.replace(past.app, {(Kind.ORDER, 1): b"damaged"}, [])
    past.frames.forget((Kind.ORDER, 1))
    assert place(past, orders, 2, "abcd", new_max=2) is None and not orders.has_one()
    again = place(past, orders, 2, "abcd", new_max=None)
    assert again is not None and again.order == 2 and orders.has_one()


def test_text_is_not_placed(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "other.db")
    past = Past(Versions.of(TEXT), Panes(database))
    frame = TEXT.schema.merge([TEXT.reduce(events([(0, "a", 1)]))])
    assert KeyOrders(past).place(frame, change_at(1), new_max=None) is None
    database.close()
