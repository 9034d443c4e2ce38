"""Three servers of a shop on this machine, and what is bought together there; shows the bundles as they change.

python -m examples.product_bundling.run
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

FOLDER = pathlib.Path(__file__).parent
JOB = (FOLDER / "job.toml").read_text()
SERVERS = 3
SHOWN = 3


async def show(servers: Servers, window_s: int, slide_s: int) -> None:
    """Start everything, publish the job, and say whenever a window has other bundles."""
    servers.start()
    await servers.wait_together()
    async with elf.connect(servers.urls[0]) as client, elf.connect(servers.urls[2]) as other:
        text = JOB.replace("300 seconds", f"{window_s} seconds").replace("30 seconds", f"{slide_s} seconds")
        job = await client.publish(text=text)
        print(f"{job.key} is published; bundles follow each {slide_s} s, of the last {window_s} s", flush=True)
        shown: elf.Window | None = None
        while True:
            with contextlib.suppress(elf.UnavailableError):
                told = await other.feedback(job.key)
                if told.rows and told.window != shown:
                    shown = told.window
                    bundles = "; ".join(", ".join(row["products"]) for row in told.rows[:SHOWN])
                    print(f"{time.strftime('%H:%M:%S')} {len(told.rows)} bundles, of which {bundles}", flush=True)
                    first = told.rows[0]["products"][0]
                    answer = await client.route(job.key, first)
                    print(f"  bought with {first}: {', '.join(answer['with'])}", flush=True)
            await asyncio.sleep(0.1)


async def main() -> None:
    """Run until Ctrl-C, or for --seconds."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m examples.product_bundling.run", description=__doc__
    )
    parser.add_argument(
        "--window", type=whole_seconds(), default=10, help="seconds (default 10; the job file's is 300)"
    )
    parser.add_argument("--slide", type=whole_seconds(), default=5, help="seconds (default 5; the job file's is 30)")
    parser.add_argument("--rate", type=rate, default=50, help="orders per second and server (default 50)")
    parser.add_argument("--seconds", type=float, help="end by itself after so long")
    args = parser.parse_args()
    if args.window % args.slide:
        parser.error(f"--window {args.window} is no multiple of --slide {args.slide}; use one")
    with tempfile.TemporaryDirectory(prefix="elf-bundling-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        install(folder, FOLDER)
        servers = Servers(folder, SERVERS, args.rate, seed=1, writers={"orders": "examples.product_bundling.orders"})
        try:
            await until_stopped(show(servers, args.window, args.slide), args.seconds)
        finally:
            servers.stop()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except elf.ElfError as error:
        sys.exit(str(error))
