"""An agent is killed and its disk removed: what its neighbour has of it is counted, also if that restarts meanwhile."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import sqlite3
import time

import msgspec

import elf
from elf.agents.intake.progress import SourceProgress
from elf.agents.worker.state import Whole
from tests.system.cluster import AgentProcess, make_agents, running, wait_until

SIZE_S = 10
JOB = f"""
name = "sold"
creator = "shop"
query = "SELECT count(*) AS n FROM orders GROUP BY window(ts, '{SIZE_S} seconds')"
[options]
lateness = "500ms"
"""


def test_an_agent_lost_with_its_disk_goes_on_where_its_neighbour_has_a_copy(tmp_path: pathlib.Path) -> None:
    agents = make_agents(tmp_path, [{"orders": {}}] * 4)
    with running(agents):
        with elf.connect(agents[0].url) as client:
            master = client.publish(text=JOB).master
        head = next(agent for agent in agents if agent.overlay == master)
        # Others join through the first one, so that has to be there.
        lost = next(agent for agent in agents[1:] if agent is not head)
        begin_ms = int(time.time()) // SIZE_S * SIZE_S * 1_000

        # In the middle of an interval: what is pushed is in no sealed snapshot for a while.
        wait_until(lambda: time.time() % SIZE_S < SIZE_S / 3, "an interval begins")
        push(lost, 30)
        holder = wait_until(lambda: holder_of(agents, lost, 30), "a neighbour has a copy of what was read")
        lost_ms = int(time.time() * 1_000)
        push(lost, 5)
        lost.kill()
        shutil.rmtree(lost.data)
        holder.kill()
        holder.start()
        lost.start()
        wait_until(lambda: lost.metric('elf_checkpoint_copies_total{kind="adopted"}') == 1, "the copy is taken over")
        push(lost, 7)

        with elf.connect(head.url) as client:
            closed_ms = (int(time.time() * 1_000) // (SIZE_S * 1_000) + 1) * SIZE_S * 1_000
            wait_until(lambda: through_ms(client) >= closed_ms, "all that was pushed is in closed intervals")
            # The last five may be in the copy, or among the snapshots: never half of them, and never twice.
            total = wait_until(lambda: (n := count(client, begin_ms, closed_ms)) >= 37 and n, "all of it is counted")
            assert total in (37, 42)
            window_ms = lost_ms // (SIZE_S * 1_000) * SIZE_S * 1_000
            label = client.query("shop/sold", f"{window_ms}/{window_ms + SIZE_S * 1_000}").completeness
            assert label.gaps >= 1, "what came between copy and loss may be lost"
            assert label.status == "final_incomplete"

            # With its disk it needs no copy.
            lost.kill()
            lost.start()
            push(lost, 11)
            closed_ms = (int(time.time() * 1_000) // (SIZE_S * 1_000) + 1) * SIZE_S * 1_000
            wait_until(lambda: through_ms(client) >= closed_ms, "the next intervals are closed")
            assert count(client, begin_ms, closed_ms) == total + 11
            assert lost.metric('elf_checkpoint_copies_total{kind="adopted"}') == 0


def holder_of(agents: list[AgentProcess], owner: AgentProcess, lines: int) -> AgentProcess | None:
    """Return who has a checkpoint of another agent that was made when it had read so many lines."""
    query = "SELECT body FROM held_checkpoints WHERE source = 'orders' AND address = ?"
    for agent in agents:
        with contextlib.closing(sqlite3.connect(f"file:{agent.data / 'state.db'}?mode=ro", uri=True)) as sql:
            for (body,) in sql.execute(query, (owner.overlay,)).fetchall():
                whole = msgspec.msgpack.decode(body, type=Whole)
                if msgspec.json.decode(whole.source.counters, type=SourceProgress).counters.read == lines:
                    return agent
    return None


def through_ms(client: elf.Client) -> int:
    try:
        return int(client.job("shop/sold")["through_ms"] or 0)
    except elf.UnavailableError:
        return 0


def count(client: elf.Client, begin_ms: int, end_ms: int) -> int:
    rows = client.query("shop/sold", f"{begin_ms}/{end_ms}").rows
    return int(rows[0]["n"]) if rows else 0


def push(agent: AgentProcess, number: int) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with elf.connect(agent.url) as client:
        client.ingest("orders", [{"ts": now, "n": n} for n in range(number)])
