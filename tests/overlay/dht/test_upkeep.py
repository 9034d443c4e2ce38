"""What knowing each other costs while nothing happens, and how right it stays while agents come and go."""

from __future__ import annotations

import asyncio
import random

from elf.overlay.dht import Dht
from elf.overlay.dht.table import by_distance
from elf.overlay.ids import Contact
from elf.overlay.sim.loop import SimLoop
from elf.overlay.sim.machines import PORT
from tests.overlay.dht.cluster import DhtCluster


def stale_share(cluster: DhtCluster) -> float:
    """Return the share of contacts, over all tables, that are dead."""
    living = {agent.contact for agent in cluster.agents}
    contacts = [contact for agent in cluster.agents for contact in agent.contacts()]
    return sum(contact not in living for contact in contacts) / len(contacts)


def test_an_idle_cluster_is_quiet_and_still_notices_the_dead() -> None:
    loop = SimLoop(11)

    async def main() -> None:
        cluster = DhtCluster(loop)
        await cluster.grow(100)
        await asyncio.sleep(180)
        sent = loop.sent
        await asyncio.sleep(60)
        assert (loop.sent - sent) / 100 / 60 <= 1.5, "datagrams per agent and second"
        for agent in random.Random(2).sample(cluster.agents, 15):
            cluster.crash(agent)
        assert stale_share(cluster) > 0.1
        await asyncio.sleep(60)
        assert stale_share(cluster) < 0.01
        assert [key.hex() for key in cluster.keys(60) if cluster.false_roots(key)] == []

    loop.run(main())


def test_lookups_stay_right_while_a_tenth_of_the_agents_is_replaced_each_minute() -> None:
    count, minutes, lookups = 100, 2, 1000
    loop = SimLoop(12)

    async def main() -> None:
        cluster, rng = DhtCluster(loop), random.Random(3)
        await cluster.grow(count)
        await asyncio.sleep(30)
        wrong: list[bytes] = []
        joining: list[Dht] = []
        took_ms: list[int] = []

        async def look_up(agent: Dht, key: bytes) -> None:
            began_ms, right = loop.now_ms, roots(key)
            found = (await agent.lookup(key))[0]
            took_ms.append(loop.now_ms - began_ms)
            # The root may have changed while the lookup was under way.
            if found not in right | roots(key):
                wrong.append(key)

        def roots(key: bytes) -> set[Contact]:
            """Return the root; while it is still joining, also the one that it is about to succeed."""
            known = [agent.contact for agent in cluster.agents if agent not in joining]
            return {cluster.root(key), by_distance(known, key)[0]}

        async def join(seeds: list[tuple[str, int]]) -> None:
            joining.append(agent := await cluster.start())
            await agent.join(seeds)
            joining.remove(agent)

        tasks: list[asyncio.Task[object]] = []
        replaced = count * minutes // 10
        for _ in range(replaced):
            await asyncio.sleep(minutes * 60 / replaced)
            cluster.crash(rng.choice(cluster.agents))
            seeds = [(agent.contact.host, PORT) for agent in rng.sample(cluster.agents, 2)]
            tasks.append(asyncio.create_task(join(seeds)))
            askers = rng.choices([agent for agent in cluster.agents if agent not in joining], k=lookups // replaced)
            tasks += [asyncio.create_task(look_up(agent, rng.randbytes(20))) for agent in askers]
        await asyncio.gather(*tasks)
        assert len(took_ms) == lookups
        assert wrong == []
        took_ms.sort()
        assert took_ms[lookups // 2] < 50, "half of them meet nobody dead"
        assert took_ms[lookups * 99 // 100] < 2_500
        assert stale_share(cluster) < 0.06

    loop.run(main())


def test_traffic_on_links_saves_pings() -> None:
    sent: list[int] = []
    for linked in (False, True):
        loop = SimLoop(13)

        async def main(loop: SimLoop = loop, linked: bool = linked) -> None:
            cluster = DhtCluster(loop)
            await cluster.grow(12)
            for agent in cluster.agents if linked else []:
                agent._linked = agent.contacts
            before = loop.sent
            await asyncio.sleep(45)
            sent.append(loop.sent - before)

        loop.run(main())
    assert sent[0] > 40 and sent[1] == 0, "before the first refresh there is nothing else to say"


def test_a_split_that_lasted_long_heals_as_fast_as_a_short_one() -> None:
    loop = SimLoop(14)

    async def main() -> None:
        cluster = DhtCluster(loop)
        await cluster.grow(20)
        left = {agent.contact.host for agent in cluster.agents[:10]}
        loop.cut = lambda source, destination: (source[0] in left) != (destination[0] in left)
        await asyncio.sleep(1800)
        assert all(agent.pace.calm > 1 for agent in cluster.agents), "they have got used to it"
        loop.cut = lambda source, destination: False
        await asyncio.sleep(150)
        assert all(len(agent.contacts()) == 19 for agent in cluster.agents)

    loop.run(main())
