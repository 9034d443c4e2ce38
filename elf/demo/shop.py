"""The shop's catalogue: what it sells, how popular each thing is, and who comes by.

Owns names and popularity only; `elf.demo.clicks` draws the events. Fixed data: the same in every process.
"""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import numpy.typing as npt
import polars as pl

#: Share of the shop's traffic, and the titles on sale, best seller first.
CATEGORIES: dict[str, tuple[float, tuple[str, ...]]] = {
    "Books": (
        0.22,
        ("Dune", "Emma", "Ulysses", "The Hobbit", "Middlemarch", "Don Quixote", "The Trial", "Walden", "Beloved"),
    ),
    "Clothing": (
        0.18,
        ("Rain Jacket", "Wool Socks", "Denim Shirt", "Canvas Shoes", "Linen Scarf", "Running Tights", "Beanie"),
    ),
    "Video Games": (
        0.15,
        (
            "Angry Birds",
            "Tetris",
            "Pokémon Red",
            "Pac-Man",
            "Space Invaders",
            "Minesweeper",
            "Civilization",
            "Lemmings",
            "SimCity",
            "Monkey Island",
            "Doom",
            "Myst",
        ),
    ),
    "Kitchen": (0.14, ("Moka Pot", "Chef's Knife", "Wok", "Dutch Oven", "Kettle", "Pasta Machine", "Whisk")),
    "Music": (0.11, ("Kind of Blue", "Abbey Road", "Goldberg Variations", "Pet Sounds", "Nevermind", "Hunky Dory")),
    "Garden": (0.09, ("Watering Can", "Secateurs", "Bird Feeder", "Tomato Seeds", "Wheelbarrow", "Hammock")),
    "Toys": (0.07, ("Wooden Train", "Kite", "Yo-Yo", "Puzzle 1000", "Spinning Top", 'Plush "Bruno" Bear')),
    "Office": (0.04, ("Fountain Pen", "Stapler", "Desk Lamp", "Notebook A5", "Hole Punch")),
}
EDITIONS = ("", " 2", " Deluxe", " Mini", " Classic", " Gift Set", " XL", " Limited")
USER_AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 Version/17.5 Safari/605",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 Chrome/126.0 Mobile Safari/537",
    "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
)
#: Popularity falls with rank r as r to the minus this: a few hits, a long tail.
SKEW = 1.1


def catalogue() -> pl.DataFrame:
    """Return every product, one per row: category, product, slug, price_cents and share of all traffic (sums to 1)."""
    rows: list[tuple[str, str, str, int, float]] = []
    for category, (share, titles) in CATEGORIES.items():
        products = [title + edition for edition in EDITIONS for title in titles]
        weights = zipf(len(products))
        for rank, product in enumerate(products):
            price_cents = 199 + 100 * (len(product) * 7 + rank * 13) % 9_900
            slug = f"{_slug(category)}/{_slug(product)}"
            rows.append((category, product, slug, price_cents, share * float(weights[rank])))
    return pl.DataFrame(rows, schema=["category", "product", "slug", "price_cents", "share"], orient="row")


def zipf(count: int) -> npt.NDArray[np.float64]:
    """Return `count` probabilities falling by `SKEW`, most popular first."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -SKEW
    return np.asarray(weights / weights.sum())


def _slug(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
