"""An agent that is gone for good: it is named until an operator says so, and admitted again if it comes back."""

from __future__ import annotations

import pathlib
import time
from typing import Any

import pytest

import elf
from tests.system.cluster import make_agents, running, wait_until

JOB = """
name = "sold"
creator = "shop"
query = "SELECT count(*) AS n FROM orders GROUP BY window(ts, '1 second')"
[options]
lateness = "500ms"
leap_after = "1 second"
"""


def test_a_retired_agent_is_expected_no_more_and_admitted_when_it_comes_back(tmp_path: pathlib.Path) -> None:
    agents = make_agents(tmp_path, [{"orders": {}}] * 3)
    with running(agents), elf.connect(agents[0].url) as client:
        published = client.publish(text=JOB)
        gone = next(agent for agent in agents[1:] if agent.overlay != published.master)
        left = [agent for agent in agents if agent is not gone]

        def latest() -> elf.Completeness:
            return client.query("shop/sold").completeness

        wait_until(lambda: latest().expected == 3 and latest().complete, "all three are in the result")
        with pytest.raises(elf.AgentRunningError, match=f"{gone.name} still answers"):
            client.retire(gone.name)
        gone.kill()
        wait_until(lambda: latest().missing == [gone.name], "it is named missing")
        with pytest.raises(elf.UnknownAgentError) as failure:
            client.retire(gone.name + "0")
        assert gone.name in failure.value.nearest
        retired = client.retire(gone.name)
        assert (retired.name, retired.unreachable) == (gone.name, [])
        (gap,) = retired.jobs
        assert gap.job == "shop/sold"
        assert gap.missing_since_ms is not None
        assert abs(gap.missing_since_ms - time.time() * 1000) < 60_000
        wait_until(lambda: latest().complete and latest().expected == 2, "nobody misses it any more")
        lacking = client.query("shop/sold", f"{gap.missing_since_ms}/{gap.missing_since_ms + 1000}").completeness
        assert lacking.missing == [gone.name], "its gap stays named"
        assert client.job("shop/sold")["retired"] == [gone.name]
        assert client.retire(gone.name).jobs == [gap], "saying it again says the same"

        text = JOB.replace('"sold"', '"sold2"')
        client.publish(text=text)
        wait_until(lambda: client.query("shop/sold2").completeness.complete, "a new job does not expect it either")
        assert client.query("shop/sold2").completeness.expected == 2

        gone.start()
        wait_until(lambda: latest().expected == 3 and latest().complete, "it is admitted again")
        assert client.job("shop/sold")["retired"] == []
        end_s = time.time()
        _push([*left, gone])
        wait_until(lambda: _total(client, end_s) == 300, "and counted")


def test_an_agent_that_has_the_source_no_more_is_retired_while_it_runs(tmp_path: pathlib.Path) -> None:
    agents = make_agents(tmp_path, [{"orders": {}}] * 3)
    with running(agents), elf.connect(agents[0].url) as client:
        client.publish(text=JOB)

        def latest() -> elf.Completeness:
            return client.query("shop/sold").completeness

        wait_until(lambda: latest().expected == 3 and latest().complete, "all three are in the result")
        other, join = agents[2], [agents[0].overlay]
        other.stop()
        other.configure({"carts": {}}, join)
        other.start()
        wait_until(lambda: latest().missing == [other.name], "it is named missing")
        client.publish(text=JOB.replace('"sold"', '"put"').replace("orders", "carts"))
        wait_until(lambda: client.query("shop/put").completeness.expected == 1, "it counts what it has now")
        with pytest.raises(elf.AgentRunningError, match=r"still answers at .* and has source 'carts'"):
            client.retire(other.name, "shop/put")
        assert [gap.job for gap in client.retire(other.name, "shop/sold").jobs] == ["shop/sold"]
        wait_until(lambda: latest().complete and latest().expected == 2, "nobody misses it any more")
        other.stop()
        other.configure({"orders": {}}, join)
        other.start()
        wait_until(lambda: latest().complete and latest().expected == 3, "it has the source again")


def _total(client: elf.Client, since_s: float) -> Any:
    begin = int(since_s) * 1000 - 2_000
    rows = client.query("shop/sold", f"{begin}/{begin + 120_000}").rows
    return rows[0]["n"] if rows else 0


def _push(agents: list[Any]) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for agent in agents:
        with elf.connect(agent.url) as client:
            client.ingest("orders", [{"ts": now, "n": n} for n in range(100)])
