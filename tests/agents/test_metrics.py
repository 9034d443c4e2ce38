"""What is counted is in the metrics, whatever its kind."""

import pathlib

import pytest

from agents.damages import KINDS, Damages
from agents.metrics import damages_by_kind
from agents.store.database import Database
from agents.store.panes import Kind, Panes


@pytest.mark.parametrize("kind", Kind)
def test_damage_of_each_kind_of_block_is_counted(tmp_path: pathlib.Path, kind: Kind) -> None:
    database = Database(tmp_path / "state.db")
    before = damages_by_kind(database.damages)
    assert set(before.values()) == {0} and set(KINDS) < set(before), "there from the start"
    Panes(database).note(kind, 5)
    after = damages_by_kind(database.damages)
    assert {name: count for name, count in after.items() if count} == {kind.word: 1}
    assert set(after) == set(before)
    database.close()


def test_damage_of_a_kind_that_nobody_listed_is_counted_too() -> None:
    damages = Damages()
    damages.note("contacts", "contacts.json is damaged")
    assert damages_by_kind(damages)["contacts"] == 1
