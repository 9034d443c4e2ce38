"""`elf demo`: a web shop of some servers on this machine, its live top ten, and what becomes of it when one fails."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import shutil
import tempfile
import threading
import time

import elf
from elf.cli.output import describe_completeness, result_table
from elf.cli.screen import Screen
from elf.demo.clicks import ClickStream, write_live
from elf.demo.servers import CLICKS, Servers, until_stopped

JOB = "shop/top-ten"
WINDOW_S, SLIDE_S = 10, 2
#: What the shop's clocks and buffers put out of order; less than in `scripts/demo`, so that a window is soon there.
OUT_OF_ORDER_MS = 500
JOB_TEXT = f"""
name = "top-ten"
creator = "shop"
query = '''
SELECT product, count(*) AS clicks, sum(price_cents) AS cents
FROM {CLICKS}
WHERE event = 'click'
GROUP BY product, window(ts, '{WINDOW_S} seconds', '{SLIDE_S} seconds')
ORDER BY clicks DESC, product LIMIT 10
'''
[options]
lateness = "1s"
"""
SPARK = "scripts/demo in a checkout shows the same with five agents, and has Spark recompute a window"


class Shop:
    """The servers and whoever writes their logs, as threads of this process, in a folder of their own.

    Args:
        agents: how many.
        rate: of events, per second and server.
        seed: of the first server's visitors; the others count on.
    """

    def __init__(self, agents: int, rate: float, seed: int) -> None:
        self.servers = Servers(pathlib.Path(tempfile.mkdtemp(prefix="elf-demo-")), agents, rate, seed, {CLICKS: ""})
        self._ended = threading.Event()
        self._writers = [
            threading.Thread(target=self._write, args=(index,), name=f"visitors-{index}", daemon=True)
            for index in range(agents)
        ]

    def start(self) -> None:
        """Start agents and writers."""
        self.servers.start()
        for writer in self._writers:
            writer.start()

    def stop(self) -> None:
        """End all, and leave nothing behind."""
        self._ended.set()
        for writer in self._writers:
            if writer.is_alive():
                writer.join()
        self.servers.stop()
        shutil.rmtree(self.servers.folder, ignore_errors=True)

    def _write(self, index: int) -> None:
        stream = ClickStream(self.servers.seed + index, out_of_order_ms_max=OUT_OF_ORDER_MS)
        # Once it has ended there is no folder any more, and nobody who reads.
        with contextlib.suppress(FileNotFoundError):
            write_live(stream, self.servers.log_of(index, CLICKS), self.servers.rate, None, self._ended)


class Tour:
    """What the demo shows.

    Args:
        shop: the servers.
        screen: where.
        kill_after_s: when an agent is killed, from the first window on; None: none is.
    """

    def __init__(self, shop: Shop, screen: Screen, kill_after_s: float | None) -> None:
        self._servers = shop.servers
        self._shop = shop
        self._screen = screen
        self._kill_after_s = kill_after_s
        self._killed: str | None = None
        self._is_told = False

    async def run(self) -> None:
        """Start the shop, publish, and watch; kill an agent meanwhile."""
        began = time.monotonic()
        agents = len(self._servers.urls)
        self._screen.note(f"starting {agents} agents in {self._servers.folder}; Ctrl-C ends them and removes it")
        self._screen.note(SPARK)
        self._shop.start()
        await self._servers.wait_together()
        self._screen.note(f"{agents} agents have found each other; web1 answers at {self._servers.urls[0]}")
        async with elf.connect(self._servers.urls[0]) as client:
            job = await client.publish(text=JOB_TEXT)
            self._screen.note(f"published {job.key} through web1; its master is the agent at {job.master}")
            killing: asyncio.Task[None] | None = None
            with self._screen.live():
                async for result in client.watch(JOB):
                    if killing is None and result.window is not None and result.rows:
                        self._screen.note(f"the first window came {time.monotonic() - began:.0f} s after the start")
                        self._screen.note(f"ask in another terminal: elf query {JOB} --agent {self._servers.urls[-1]}")
                        killing = asyncio.create_task(self._kill(job.master))
                    self._screen.show(result_table(result))
                    self._tell_loss(result)

    async def _kill(self, master: str) -> None:
        """Kill an agent that neither answers here nor is the job's master, once it is time."""
        spared = {self._servers.overlay[0], int(master.rpartition(":")[2])}
        others = [index for index, port in enumerate(self._servers.overlay) if port not in spared]
        if self._kill_after_s is None or not others:
            return
        await asyncio.sleep(self._kill_after_s)
        self._servers.kill(others[0])
        self._killed = f"web{others[0] + 1}"
        self._screen.note(f"killed the agent of {self._killed}, as if its server had failed; watch the label")

    def _tell_loss(self, result: elf.Result) -> None:
        """Say it once when a label names the agent that was killed."""
        if self._killed is not None and not self._is_told and self._killed in result.completeness.missing:
            self._is_told = True
            self._screen.note(f"the label names it: {describe_completeness(result.completeness)}")


def run_tour(agents: int, rate: float, seed: int, kill_after_s: float | None, seconds: float | None) -> None:
    """Run the demo until Ctrl-C, SIGTERM or its time is up; nothing of it is left.

    Raises:
        ElfError: an agent has ended by itself.
    """
    from elf.cli.output import console, say

    shop = Shop(agents, rate, seed)
    try:
        asyncio.run(until_stopped(Tour(shop, Screen(console()), kill_after_s).run(), seconds))
    finally:
        with contextlib.suppress(OSError):  # the terminal may be gone
            say("stopping ...")
        shop.stop()
