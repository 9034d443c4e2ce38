"""The laboratory in small: trees stand, figures add up, one seed is one run."""

from __future__ import annotations

from elf.overlay.sim.lab import MEMBERSHIPS_MAX, Plan, run


def test_a_plan_takes_everybody_as_long_as_that_is_reasonable() -> None:
    assert Plan.of(100, 10, None, 1).members == 100
    large = Plan.of(1280, 500, None, 1)
    assert 0 <= MEMBERSHIPS_MAX - large.members * large.jobs < large.jobs
    assert Plan.of(1280, 500, 1.0, 1).members == 1280
    assert Plan.of(10, 1, 0.0, 1).members == 1


def test_trees_of_all_and_of_some() -> None:
    told: list[str] = []
    everybody = run(Plan.of(40, 8, 1.0, 2), lambda what, done, total: told.append(what))
    assert everybody.wrong == () and (everybody.false_roots, everybody.misled) == (0, 0)
    assert everybody.forwarders == 0
    assert everybody.fan_in_max <= 16 and 1 <= everybody.hops_mean <= everybody.depth <= 7
    assert 1 <= everybody.joins <= 1.5 and everybody.roots_max <= 2
    assert everybody.idle_packets_per_s > 0 and everybody.build_bytes > 0
    assert told[0] == "agents join" and told[-1] == "trees are measured"
    some = run(Plan.of(40, 8, 0.25, 2))
    assert some.wrong == () and some.plan.members == 10
    assert some.build_messages < everybody.build_messages
    assert some.digest == run(Plan.of(40, 8, 0.25, 2)).digest
