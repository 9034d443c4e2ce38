from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.contract import Record
from elf.overlay.control.batches import batches


@given(st.lists(st.integers(0, 12).map(lambda size: Record("k", 1, bytes(size))), max_size=20), st.integers(0, 15))
def test_batches_hold_everything_in_order_and_no_more_than_allowed(records: list[Record], bytes_max: int) -> None:
    found = list(batches(records, bytes_max))
    assert [record for batch in found for record in batch] == records
    sizes = [sum(len(record.body) for record in batch) for batch in found]
    assert all(size <= bytes_max or len(batch) == 1 for size, batch in zip(sizes, found, strict=True))
    for size, after in zip(sizes, found[1:], strict=False):
        assert size + len(after[0].body) > bytes_max, "no batch is smaller than it could be"
