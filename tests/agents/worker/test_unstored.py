"""What is sealed and not stored, until there is a verdict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.worker.state import Snapshot
from elf.agents.worker.unstored import Unstored
from elf.overlay.contract import Verdict


@given(st.lists(st.sampled_from(["seal", "empty", "store", "settle"]), max_size=20), st.integers(0, 5))
def test_each_is_stored_once_and_asked_for_until_its_verdict(steps: list[str], behind: int) -> None:
    unstored, through, stored, settled = Unstored(), -1, -1, -1
    full: set[int] = set()
    for step in steps:
        if step in ("seal", "empty"):
            through += 1
            full |= {through} if step == "seal" else set()
            unstored.add(Snapshot(through, b""), [(through, through)] if step == "seal" else [])
        elif step == "store":
            assert [each.through for each in unstored.store()] == list(range(max(stored, settled) + 1, through + 1))
            stored = max(stored, through)
        else:
            settled = max(settled, through - behind)
            unstored.settle(settled)
        held = range(settled + 1, through + 1)
        assert [each.through for each in unstored.of(Verdict(-1, through, missing=True))] == list(held)
        volatile = [each for each in held if each > stored and each in full]
        assert unstored.volatile([]) == ((volatile[0] - 1, volatile[-1]) if volatile else None)


def test_what_else_is_in_memory_only_is_in_the_run_and_what_was_stored_in_a_former_run_is_not() -> None:
    unstored = Unstored(4)
    unstored.recall([Snapshot(4, b"")])
    assert unstored.volatile([]) is None and unstored.store() == []
    assert unstored.volatile([(7, 9), (6, 6)]) == (5, 9)
