"""Three web servers on this machine, each with a shop, a log and an agent; shows coupons as they come and change.

python -m examples.micro_promotion.run
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import pathlib
import sys
import tempfile
import time

from aiohttp import web

import elf
from elf.demo.servers import Servers, until_stopped
from examples.demo.arguments import rate, whole_seconds
from examples.micro_promotion.shop import COUPONS, all_prices, make_shop

JOB = pathlib.Path(__file__).with_name("job.toml").read_text()
SERVERS = 3


async def show(servers: Servers, window_s: int) -> None:
    """Start everything, publish the job, and say whenever a shop's coupons are others."""
    servers.start()
    await servers.wait_together()
    async with contextlib.AsyncExitStack() as stack:
        shops = [make_shop(url, all_prices()) for url in servers.urls]
        for number, shop in enumerate(shops, start=1):
            runner = web.AppRunner(shop, access_log=None)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            print(f"shop {number}: http://127.0.0.1:{runner.addresses[0][1]}/coupons", flush=True)
        async with elf.connect(servers.urls[0]) as client:
            job = await client.publish(text=JOB.replace("300 seconds", f"{window_s} seconds"))
        print(f"{job.key} is published; coupons follow each window of {window_s} s, some 8 s after its end", flush=True)
        shown: list[list[str]] = [[] for _ in shops]
        while True:
            for number, shop in enumerate(shops):
                products = shop[COUPONS].products
                if products != shown[number]:
                    shown[number] = list(products)
                    print(f"{time.strftime('%H:%M:%S')} shop {number + 1}: {', '.join(products)}", flush=True)
            await asyncio.sleep(0.1)


async def main() -> None:
    """Run until Ctrl-C, or for --seconds."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="python -m examples.micro_promotion.run", description=__doc__
    )
    parser.add_argument("--window", type=whole_seconds(), default=10, help="seconds (default 10; the paper's is 300)")
    parser.add_argument("--rate", type=rate, default=200, help="events per second and server (default 200)")
    parser.add_argument("--seconds", type=float, help="end by itself after so long")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="elf-shop-", ignore_cleanup_errors=True) as folder:
        servers = Servers(pathlib.Path(folder), SERVERS, args.rate, seed=1)
        try:
            await until_stopped(show(servers, args.window), args.seconds)
        finally:
            servers.stop()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except elf.ElfError as error:
        sys.exit(str(error))
