"""A root group under attack keeps one chain of commands; and each violation of that is noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.world.chain import FIRST, FIRST_PLACE, Chain, check_chain
from tests.world.leadership import play_chain


@pytest.mark.parametrize("seed", [2, 3])
def test_leaders_fall_and_the_chain_goes_on(seed: int) -> None:
    run = play_chain(seed)
    assert run.failures == [], run.line()
    assert run.figures["confirmed"] > 10
    assert run.figures["copies"] > 2


def right() -> Chain:
    """Three blocks after the first; the second one of two that were asked for at a time was not taken."""
    chain = Chain()
    for place, before, asked_s, is_taken in (
        (2, FIRST, 1.0, True),
        (3, 1, 2.0, False),
        (3, 1, 2.0, True),
        (4, 3, 3.0, True),
    ):
        block = chain.ask(place, before, asked_s)
        if is_taken:
            chain.see(place, block.mark, "web0")
            block.confirmed_s = asked_s + 0.5
    chain.see(FIRST_PLACE, FIRST, "web1")
    chain.ends = {"web0": 4, "web1": 3}
    for disk in ("web0", "web1"):
        chain.entries.setdefault((b"tree", 7, 2), {}).setdefault(b"body", disk)
        chain.states.setdefault((b"tree", 7), {}).setdefault(b"state", disk)
    return chain


def test_nothing_is_wrong_with_a_right_one() -> None:
    assert check_chain(right()) == []


def fork(chain: Chain) -> None:
    chain.see(3, 2, "web2")


def repeat(chain: Chain) -> None:
    chain.see(5, 3, "web2")


def invent(chain: Chain) -> None:
    chain.see(5, 9, "web2")


def misplace(chain: Chain) -> None:
    chain.blocks[4].before = 2


def lose(chain: Chain) -> None:
    chain.ends["web0"] = 3


def forget(chain: Chain) -> None:
    del chain.seen[4]


def overtake(chain: Chain) -> None:
    chain.blocks[1].asked_s = 3.0


def another_entry(chain: Chain) -> None:
    chain.entries[b"tree", 7, 2][b"other"] = "web1"


def another_state(chain: Chain) -> None:
    chain.states[b"tree", 7][b"other"] = "web1"


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (fork, "place 3 has several blocks"),
        (repeat, "block 3 is at 3 and at 5"),
        (invent, "block 9 at 5 was never asked for"),
        (misplace, "block 4 at 4 does not follow block 2 at 3"),
        (lose, "block 4 was confirmed at 3.50 s and is not at 4"),
        (forget, "block 4 was confirmed at 3.50 s and is not at 4"),
        (overtake, "block 1 is before 3, which was confirmed before it was asked for"),
        (another_entry, "entry 7 of term 2 is another one at web0 and web1"),
        (another_state, "what was made of all entries through 7 differs at web0 and web1"),
    ],
)
def test_a_violation_is_noticed(plant: Callable[[Chain], None], says: str) -> None:
    chain = right()
    plant(chain)
    assert says in check_chain(chain)[0]
