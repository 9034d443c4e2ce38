"""Two candidates per job spread roots better than the paper says, on any draw of ids."""

import random

import pytest

from elf.overlay.ids import ID_BYTES
from elf.overlay.placement import candidate_key, choose_salt
from tests.overlay.roots import PAPER, measure, place_trees


@pytest.mark.parametrize(("trees", "below", "paper"), PAPER)
def test_hardly_any_agent_of_1280_is_root_of_many_trees(trees: int, below: int, paper: float) -> None:
    two, one = measure(trees, below, 3), measure(trees, below, 3, salts=(0,))
    assert two.mean >= 0.999
    assert two.worst > paper
    assert one.mean < two.worst, "what the second candidate is for"
    assert two.roots_max < one.roots_max


def test_each_tree_goes_where_the_publisher_would_put_it() -> None:
    rng = random.Random(4)
    agents = [rng.getrandbits(160) for _ in range(20)]
    apps = [rng.randbytes(ID_BYTES) for _ in range(100)]
    roots = dict.fromkeys(agents, 0)
    for app in apps:
        pair = [min(agents, key=lambda id: id ^ int.from_bytes(candidate_key(app, salt))) for salt in (0, 1)]
        salt = choose_salt([roots[id] for id in pair])
        assert salt is not None
        roots[pair[salt]] += 1
    assert place_trees(agents, apps) == list(roots.values())
    assert sum(place_trees(agents, apps, salts=(0,))) == 100


def test_figures_of_a_seed_are_always_the_same() -> None:
    assert measure(200, 3, 2, agents=100, seed=9) == measure(200, 3, 2, agents=100, seed=9)
