"""`scripts/demo`: a web shop of five servers on this machine, its live top ten, and the proof that it is right.

Starts five agents and five log writers as processes of their own, publishes the micro-promotion job (paper, Figure 1),
shows its results as they come, asks for them through another agent, and lets Spark recompute one window. Everything
it starts, it ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import elf
from elf.agents.errors import ElfError
from elf.cli.exits import DIFFERS, OK
from elf.cli.output import console, result_table
from elf.cli.screen import Screen
from elf.demo.servers import Servers, until_stopped

JOB = "shop/micro-promotion"
#: So long Spark may take to end once nobody waits for it.
ENDING_S = 5.0
JOB_TEXT = """
name = "micro-promotion"
creator = "shop"
query = '''
SELECT product, count(*) AS clicks, sum(price_cents) AS cents
FROM clicks
WHERE event = 'click' AND category = 'Video Games'
GROUP BY product, window(ts, '{window} seconds', '{slide} seconds')
ORDER BY clicks DESC, product LIMIT 10
'''
[options]
lateness = "6s"   # the shop's clocks and buffers put events up to 5 s out of order
"""


class Tour:
    """What the demo shows."""

    def __init__(self, shop: Servers, window_s: int, slide_s: int, screen: Screen) -> None:
        self.shop = shop
        self.window_s = window_s
        self.slide_s = slide_s
        self.screen = screen
        self.verified: bool | None = None

    async def run(self) -> None:
        """Start the shop, publish, watch, ask elsewhere, verify; then go on watching."""
        self.shop.start()
        await self.shop.wait_together()
        self.screen.note(f"{len(self.shop.urls)} agents have found each other")
        async with elf.connect(self.shop.urls[0]) as client:
            job = await client.publish(text=JOB_TEXT.format(window=self.window_s, slide=self.slide_s))
            self.screen.note(f"published {job.key} through web1; its master is the agent at {job.master}")
            began_ms = time.time_ns() // 1_000_000
            self.screen.note(
                f"the first full window closes in about {self.window_s + self.slide_s + 8} s; Ctrl-C ends the demo"
            )
            checking: asyncio.Task[None] | None = None
            with self.screen.live():
                async for result in client.watch(JOB):
                    self.screen.show(result_table(result))
                    full = result.window is not None and result.window.start_ms >= began_ms
                    if checking is None and full and result.completeness.complete:
                        checking = asyncio.create_task(self._check(result))
                    if checking is not None and checking.done():
                        checking.result()

    async def _check(self, result: elf.Result) -> None:
        """Ask for the same window through another agent, then let Spark recompute it."""
        assert result.window is not None
        other = next(
            i for i, url in enumerate(self.shop.urls) if not result.master.endswith(f":{self.shop.overlay[i]}")
        )
        async with elf.connect(self.shop.urls[other]) as client:
            again = await client.query(JOB, result.window)
        same = "the same rows" if again.rows == result.rows else "OTHER ROWS"
        self.screen.note(f"asked again through web{other + 1}: {same}, by way of {' > '.join(again.hops)}")
        self.screen.note("Spark recomputes that window from the agents' archives ...")
        self.screen.note(await self._verify(self.shop.urls[other], result.window))

    async def _verify(self, url: str, window: elf.Window) -> str:
        folders = [word for folder in self.shop.archives for word in ("--archive", str(folder))]
        span = f"{window.start_ms}/{window.end_ms}"
        command = ["-m", "elf", "verify", JOB, "--window", span, "--agent", url, "--json", *folders]
        code, out, messages = await answer_of(sys.executable, *command)
        if code not in (OK, DIFFERS):
            return f"Spark could not verify: {messages.strip()}"
        report = json.loads(out)
        self.verified = report["agrees"]
        shown = f"{window.start:%H:%M:%S} to {window.end:%H:%M:%S} UTC"
        if self.verified:
            return f"Spark agrees with the window {shown}: every cell is the same"
        return f"Spark differs from the window {shown}:\n{report['verdict']}"


async def answer_of(*command: str) -> tuple[int | None, str, str]:
    """Run a command and return its exit code, output and messages; it ends with whoever waits for it."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C reaches the demo alone, as in `Servers`
    )
    try:
        out, messages = await process.communicate()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        try:
            await asyncio.wait_for(process.communicate(), ENDING_S)
        except TimeoutError:
            # What it started, too: Spark's Java holds the pipes, and the loop must not end before these do.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()
        raise
    return process.returncode, out.decode(errors="replace"), messages.decode(errors="replace")


def main() -> int:
    """Run the demo until Ctrl-C; 0 unless Spark was asked and differed."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="scripts/demo", description="A five-server web shop on this machine."
    )
    parser.add_argument("--rate", type=float, default=200, help="events per second and server (default 200)")
    parser.add_argument(
        "--window", type=int, default=30, help="window size in seconds (default 30; the paper's is 300)"
    )
    parser.add_argument("--slide", type=int, default=5, help="a new window every so many seconds (default 5)")
    parser.add_argument("--agents", type=int, default=5, help="servers (default 5)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the click streams (default 1)")
    parser.add_argument("--seconds", type=float, help="end by itself after so long (default: at Ctrl-C)")
    args = parser.parse_args()
    if min(args.window, args.slide, args.agents) < 1 or args.window % args.slide or args.rate <= 0:
        parser.error("--window must be a multiple of --slide, and all figures positive")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="elf-demo-"))
    shop = Servers(folder, args.agents, args.rate, args.seed)
    tour = Tour(shop, args.window, args.slide, Screen(console()))
    try:
        asyncio.run(until_stopped(tour.run(), args.seconds))
    except ElfError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        with contextlib.suppress(OSError):  # the terminal may be gone
            print("stopping ...", file=sys.stderr)
        shop.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if tour.verified is False else 0


if __name__ == "__main__":
    sys.exit(main())
