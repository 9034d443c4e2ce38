from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.errors import UnsupportedVersionError
from elf.overlay.links.offer import Offer, agreed

RANGES = st.tuples(st.integers(1, 9), st.integers(0, 3)).map(lambda drawn: Offer(drawn[0], drawn[0] + drawn[1]))


@given(RANGES, RANGES)
def test_both_ends_agree_on_the_newest_version_that_both_speak(one: Offer, other: Offer) -> None:
    common = range(max(one.oldest, other.oldest), min(one.newest, other.newest) + 1)
    if common:
        assert agreed(one, other) == agreed(other, one) == common[-1]
        return
    for mine, theirs in ((one, other), (other, one)):
        with pytest.raises(UnsupportedVersionError):
            agreed(mine, theirs)


def test_what_is_wrong_is_said_with_both_releases() -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        agreed(Offer(3, 4, (), "0.2"), Offer(6, 6, (), "0.4"))
    assert str(caught.value) == (
        "it speaks version 6 (release 0.4), this agent versions 3 to 4 (release 0.2): "
        "upgrade this agent, release by release, none skipped"
    )
