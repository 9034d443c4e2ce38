"""Blocks in memory over those on disk look like a store, and leave the disk as it was."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.results.split.borrowed import BorrowedPanes
from elf.agents.store.checksums import DamagedError
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, Panes, Place

APP, OTHER = bytes(20), bytes([1]) * 20
PLACES: st.SearchStrategy[Place] = st.tuples(st.sampled_from([Kind.LABEL, Kind.PANE]), st.integers(0, 4))
BLOCKS = st.dictionaries(PLACES, st.binary(min_size=1, max_size=4), max_size=6)
WRITES = st.lists(st.tuples(BLOCKS, st.sets(PLACES, max_size=3)), max_size=5)


def everything(panes: Panes, app: bytes = APP) -> dict[Kind, dict[int, bytes]]:
    for kind in (Kind.LABEL, Kind.PANE):
        blocks = panes.blocks(app, kind)
        assert panes.intervals(app, kind) == list(blocks)
        for interval in range(5):
            if interval in blocks:
                assert panes.block(app, kind, interval) == blocks[interval]
            else:
                with pytest.raises(DamagedError):
                    panes.block(app, kind, interval)
    return {kind: panes.blocks(app, kind) for kind in (Kind.LABEL, Kind.PANE)}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    opened = Database(tmp_path_factory.mktemp("panes") / "state.db")
    yield opened
    opened.close()


@settings(max_examples=40)
@given(before=BLOCKS, writes=WRITES)
def test_it_answers_like_a_store_that_was_written_and_writes_nothing(
    before: dict[Place, bytes], writes: list[tuple[dict[Place, bytes], set[Place]]], database: Database
) -> None:
    store, borrowed = Panes(database), BorrowedPanes(database)
    for app in (APP, OTHER):
        store.create(app, b"job", b"state")
        store.replace(app, before, ())
    held = everything(store)
    for changed, gone in writes:
        borrowed.commit(APP, b"another state", changed, gone)
        store.commit(OTHER, b"another state", changed, gone)
        assert everything(borrowed) == everything(store, OTHER)
    assert everything(store) == held and store.masters()[0] == (APP, b"job", b"state")
    kept: dict[Place, bytes] = {}
    for changed, gone in writes:
        kept |= {**dict.fromkeys(gone, b""), **changed}
    assert borrowed.size_bytes == sum(map(len, kept.values()))


def test_a_damaged_block_on_disk_stays_damaged_until_it_is_written(database: Database) -> None:
    borrowed = BorrowedPanes(database)
    with pytest.raises(DamagedError):
        borrowed.block(APP, Kind.PANE, 99)
    borrowed.replace(APP, {(Kind.PANE, 99): b"new"}, ())
    assert borrowed.block(APP, Kind.PANE, 99) == b"new"
