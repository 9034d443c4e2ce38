"""The statistics of one node, by stable names; `/metrics` and the checks of simulations read them. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from elf.overlay.application import Application
from elf.overlay.dht import Counters


def of_trees(applications: Collection[Application]) -> dict[str, int]:
    """Return what the machines of all applications counted, summed."""
    rollups = [application.rollup for application in applications if application.rollup is not None]
    ledgers = [rollup.ledger for rollup in rollups if rollup.ledger is not None]
    bags = [rollup.barrier.bag for rollup in rollups] + [ledger.bag for ledger in ledgers]
    return {
        "claims_overlapping": sum(bag.overlaps for bag in bags),
        "claims_unbelieved": sum(rollup.words.refused for rollup in rollups),
        "leaps": sum(ledger.leaps for ledger in ledgers),
        "records_refused": sum(application.flood.map.refused for application in applications),
        "trees": len(applications),
    }


def of_dht(counters: Counters) -> dict[str, int]:
    """Return what the DHT counted, under names of its own."""
    return {f"dht_{name}": value for name, value in dataclasses.asdict(counters).items()}
