"""Copies of snapshots among real agents: taken, let go with the verdict, and never counted beside the original."""

from __future__ import annotations

import pathlib
import time
import urllib.request

import elf
from tests.system.cluster import AgentProcess, make_agents, running, wait_until

JOB = """
name = "sold"
creator = "shop"
query = "SELECT count(*) AS n FROM orders"
[options]
interval = "1s"
lateness = "500ms"
straggler = "mirror"
replicas = 2
"""


def test_snapshots_are_copied_to_neighbours_until_their_verdict(tmp_path: pathlib.Path) -> None:
    agents = make_agents(tmp_path, [{"orders": {}}] * 3)
    with running(agents), elf.connect(agents[0].url) as client:
        client.publish(text=JOB)
        pushed = 0

        def push() -> None:
            nonlocal pushed
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            for agent in agents:
                with elf.connect(agent.url) as each:
                    pushed += each.ingest("orders", [{"ts": now, "n": n} for n in range(10)])

        def all_hold_copies() -> bool:
            push()
            return all(_metric(agent, copied) >= 5 for agent in agents)

        copied = 'elf_snapshot_copies_total{kind="taken"}'
        wait_until(all_hold_copies, "everybody takes copies for the others")
        wait_until(lambda: _total(client) == pushed, "everything is counted")
        held = "elf_snapshot_copies_held "
        for agent in agents:
            wait_until(lambda agent=agent: _metric(agent, held) <= 4, "copies go with the verdict")
        assert _total(client) == pushed, "and nothing is counted twice"


def _total(client: elf.Client) -> object:
    rows = client.query("shop/sold").rows
    return rows[0]["n"] if rows else 0


def _metric(agent: AgentProcess, name: str) -> float:
    with urllib.request.urlopen(agent.url + "/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[-1])
