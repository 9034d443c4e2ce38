"""Three servers of a shop on this machine and all three jobs of the paper's example; shows predictions as they change.

python -m examples.sale_prediction.run
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import pathlib
import sys
import tempfile
import time

import elf
from elf.demo.servers import Servers, until_stopped
from examples.demo.arguments import rate, whole_seconds
from examples.demo.packages import install

EXAMPLES = pathlib.Path(__file__).parents[1]
PACKAGES = [EXAMPLES / "product_bundling", EXAMPLES / "sale_prediction"]
JOBS = [EXAMPLES / name / "job.toml" for name in ("micro_promotion", "product_bundling", "sale_prediction")]
WRITERS = {"clicks": "elf.demo.clicks", "orders": "examples.product_bundling.orders"}
SERVERS = 3
#: How often there is a new window of orders; those of clicks, which are joined with them, end with one.
SLIDE_S = 5


async def show(servers: Servers, window_s: int) -> None:
    """Start everything, publish the jobs, and print the predictions of each window."""
    servers.start()
    await servers.wait_together()
    async with elf.connect(servers.urls[0]) as client, elf.connect(servers.urls[2]) as other:
        for path in JOBS:
            text = (
                path.read_text()
                .replace("300 seconds", f"{window_s} seconds")
                .replace("30 seconds", f"{SLIDE_S} seconds")
            )
            job = await client.publish(text=text)
            print(f"{job.key} is published", flush=True)
        print(f"predictions follow each window of {window_s} s, some 8 s after its end", flush=True)
        shown: elf.Window | None = None
        while True:
            with contextlib.suppress(elf.UnavailableError):
                told = await other.feedback(job.key)
                if told.rows and told.window != shown:
                    shown = told.window
                    print(time.strftime("%H:%M:%S"), flush=True)
                    for row in told.rows:
                        print(f"  {_sentence(row)}", flush=True)
            await asyncio.sleep(0.1)


def _sentence(row: elf.Row) -> str:
    if "trouble" in row:
        return f"{row['product']}: {row['clicks']} clicks; {row['trouble']}"
    peers = ", ".join(row["together"]) or "nothing"
    popular = ", ".join(row["popular"]) or "none of them"
    outlook = f"{row['outlook']:.0%} of the top ten's clicks"
    return f"{row['product']}: {row['clicks']} clicks; bought with {peers}; popular: {popular}: {outlook}"


async def main() -> None:
    """Run until Ctrl-C, or for --seconds."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m examples.sale_prediction.run", description=__doc__
    )
    parser.add_argument(
        "--window", type=whole_seconds(SLIDE_S), default=10, help=f"seconds, a multiple of {SLIDE_S} (default 10)"
    )
    parser.add_argument("--rate", type=rate, default=200, help="clicks, and orders, a second and server (default 200)")
    parser.add_argument("--seconds", type=float, help="end by itself after so long")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="elf-prediction-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        install(folder, *PACKAGES)
        servers = Servers(folder, SERVERS, args.rate, seed=1, writers=WRITERS)
        try:
            await until_stopped(show(servers, args.window), args.seconds)
        finally:
            servers.stop()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except elf.ElfError as error:
        sys.exit(str(error))
