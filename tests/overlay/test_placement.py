"""Two candidate keys per job, spread over the id space, and a choice that every agent would make alike."""

import doctest
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay import placement
from elf.overlay.ids import app_id, distance, source_id
from elf.overlay.placement import SALTS, candidate_key, choose_salt

APP = app_id("micro", "shop")
LOADS = st.lists(st.none() | st.integers(0, 10_000), min_size=2, max_size=2)


def test_salt_0_is_the_paper_s_key_and_salt_1_a_fixed_function_of_it() -> None:
    assert candidate_key(APP, 0) == APP
    assert candidate_key(APP, 1) == hashlib.sha1(b"\x00salt\x00\x01" + APP).digest()


@given(st.text(min_size=1).filter(lambda text: "\x00" not in text))
def test_candidate_keys_differ_from_each_other_and_from_other_keys(name: str) -> None:
    app = app_id(name, "shop")
    keys = {candidate_key(app, salt) for salt in SALTS}
    assert len(keys) == 2
    assert not keys & {source_id(name), app_id("shop", name) if name != "shop" else b""}


def test_the_two_keys_of_a_job_are_not_near_each_other() -> None:
    apps = [app_id(f"job-{number}", "shop") for number in range(2_000)]
    share = [distance(candidate_key(app, 1), app) >> 159 for app in apps]
    assert 900 < sum(share) < 1_100, "the first bit of the second key is as good as random"


@pytest.mark.parametrize(("app", "salt"), [(APP, 2), (APP, -1), (APP[:12], 0), (b"", 1)])
def test_anything_else_is_no_candidate(app: bytes, salt: int) -> None:
    with pytest.raises(ValueError, match="salt"):
        candidate_key(app, salt)


@given(LOADS)
def test_a_reachable_candidate_with_the_fewest_roots_wins_and_ties_go_to_salt_0(loads: list[int | None]) -> None:
    salt = choose_salt(loads)
    reached = [load for load in loads if load is not None]
    assert (salt is None) == (not reached)
    if salt is not None:
        assert loads[salt] == min(reached)
        assert salt == 0 or loads[0] is None or loads[0] > min(reached)


def test_the_examples_in_the_documentation_are_right() -> None:
    assert doctest.testmod(placement).failed == 0
