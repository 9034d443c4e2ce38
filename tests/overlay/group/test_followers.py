"""When a leader shows that it leads: not too late, and for all groups of an agent at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.group.followers import Followers

EVERY_MS = 5_000


@given(st.text(min_size=1, max_size=32), st.lists(st.integers(0, 1 << 40), min_size=1, max_size=8))
def test_groups_of_one_leader_show_together(me: str, times: list[int]) -> None:
    groups = [Followers(me) for _ in times]
    shows = [group.next_show_ms(now_ms, EVERY_MS) for group, now_ms in zip(groups, times, strict=True)]
    assert len({show_ms % EVERY_MS for show_ms in shows}) == 1
    for now_ms, show_ms in zip(times, shows, strict=True):
        assert now_ms + EVERY_MS // 2 < show_ms <= now_ms + EVERY_MS // 2 + EVERY_MS


def test_who_decides_often_shows_nothing_and_other_agents_show_at_other_times() -> None:
    group = Followers("web1")
    deadline_ms = 0
    for now_ms in range(0, 20_000, 1_000):
        assert now_ms <= deadline_ms or not deadline_ms
        deadline_ms = group.next_show_ms(now_ms, EVERY_MS)
    assert len({Followers(f"web{number}").next_show_ms(0, EVERY_MS) for number in range(20)}) > 10
