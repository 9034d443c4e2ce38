"""Posts of a small social network, drawn from a seed: people who chat, and a few accounts that advertise one link.

python -m examples.social_spam.posts --live --rate 200 --seed 1 --out posts.log
"""

from __future__ import annotations

import random
from typing import Any

from examples.demo.writing import write_log

#: The accounts of the campaign, its link, and how many of all posts are theirs.
CAMPAIGN = ("deal-hunter", "best-price", "shop-bot", "lucky-lou")
LINK = "https://cheap.example/watches"
SHARE = 0.08
#: Only the first two post enough to be seen among the busiest; the others hide.
WEIGHTS = (6, 5, 1, 1)
PEOPLE = [f"user{number:03}" for number in range(300)]
LINKS = ["", "", "", *(f"https://news.example/{number}" for number in range(40))]


def posts(rng: random.Random, count: int, now_ms: int) -> list[dict[str, Any]]:
    """Draw posts of one moment."""
    drawn = []
    for _ in range(count):
        if rng.random() < SHARE:
            account, link = rng.choices(CAMPAIGN, WEIGHTS)[0], LINK
        else:
            account, link = rng.choice(PEOPLE), rng.choice(LINKS)
        drawn.append({"ts": now_ms, "account": account, "link": link})
    return drawn


if __name__ == "__main__":
    write_log("examples.social_spam.posts", "posts", posts)
