"""Orders of a shop, drawn from a seed: a line for each two products of an order. What goes together changes with time.

python -m examples.product_bundling.orders --live --rate 50 --seed 1 --out orders.log
"""

from __future__ import annotations

import itertools
import random
from typing import Any

from elf.demo.shop import CATEGORIES
from examples.demo.writing import write_log

PRODUCTS = [title for category in ("Video Games", "Books", "Toys") for title in CATEGORIES[category][1]]
#: Products of one family are bought together; in a season two families are one, on offer together.
FAMILY, SEASON_MS = 3, 20_000
#: Share of orders whose products have nothing in common.
ODD_SHARE = 0.005


def families(now_ms: int) -> list[list[str]]:
    """Return the families of a moment, the same for all who ask."""
    shuffled = random.Random(0).sample(PRODUCTS, len(PRODUCTS))
    known = [shuffled[at : at + FAMILY] for at in range(0, len(shuffled) - 1, FAMILY)]
    random.Random(now_ms // SEASON_MS).shuffle(known)
    return [known[0] + known[1], *known[2:]]


def orders(rng: random.Random, count: int, now_ms: int) -> list[dict[str, Any]]:
    """Draw orders of one moment; lines of one order have its number in common."""
    known, drawn = families(now_ms), list[dict[str, Any]]()
    for _ in range(count):
        odd = rng.random() < ODD_SHARE
        basket = rng.sample(PRODUCTS if odd else rng.choice(known), rng.randint(2, 3))
        number = f"{rng.getrandbits(48):012x}"
        for one, other in itertools.combinations(basket, 2):
            drawn.append({"ts": now_ms, "order": number, "product": one, "other": other})
    return drawn


if __name__ == "__main__":
    write_log("examples.product_bundling.orders", "orders", orders)
