"""Posts of a small social network, drawn from a seed: people who chat, and a few accounts that advertise one link.

python -m examples.social_spam.posts --live --rate 200 --seed 1 --out posts.log
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

#: The accounts of the campaign, its link, and how many of all posts are theirs.
CAMPAIGN = ("deal-hunter", "best-price", "shop-bot", "lucky-lou")
LINK = "https://cheap.example/watches"
SHARE = 0.08
#: Only the first two post enough to be seen among the busiest; the others hide.
WEIGHTS = (6, 5, 1, 1)
PEOPLE = [f"user{number:03}" for number in range(300)]
LINKS = ["", "", "", *(f"https://news.example/{number}" for number in range(40))]
TICK_S = 0.1


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


def main() -> None:
    """Append posts to a log until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m examples.social_spam.posts", description=main.__doc__)
    parser.add_argument("--live", action="store_true", required=True, help="posts of this very moment")
    parser.add_argument("--rate", type=float, default=200, help="posts per second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    ended, rng = threading.Event(), random.Random(args.seed)
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with args.out.open("a", encoding="utf-8") as log:
        while not ended.wait(TICK_S):
            for post in posts(rng, round(args.rate * TICK_S), time.time_ns() // 1_000_000):
                log.write(json.dumps(post) + "\n")
            log.flush()


if __name__ == "__main__":
    main()
