"""A running job is explained by any agent: what is measured comes from one that has the source."""

from __future__ import annotations

import contextlib
import pathlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import UnknownJobError
from elf.agents.http.agent_service import Service
from elf.agents.publications.change import Wanted
from elf.agents.results.explanation import shape_of
from tests.agents.publications.test_control import configure
from tests.agents.results.test_feedback import sell
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port
from tests.virtual.http import client_of

pytestmark = pytest.mark.virtual

QUERY = "SELECT product, count(*) AS n FROM orders WHERE product <> 'none' GROUP BY product, window(ts, '1 second')"


def job_text(name: str, query: str) -> str:
    return f'name = "{name}"\ncreator = "shop"\nquery = "{query}"\n[options]\nlateness = "0s"\n'


JOBS = {
    "sold": QUERY,
    "best": QUERY.replace("<> 'none'", "<> ('none')") + " ORDER BY n DESC LIMIT 1",
    "slower": QUERY.replace("1 second", "2 seconds"),
    "buyers": "SELECT buyer, count(*) AS n FROM orders GROUP BY buyer, window(ts, '1 second')",
}


async def test_any_agent_explains_a_running_job(tmp_path: pathlib.Path) -> None:
    ports = [free_port() for _ in range(3)]
    joins: list[list[str]] = [[], *[[f"127.0.0.1:{ports[0]}"]] * 2]
    configs = [configure(tmp_path, f"web{at}", ports[at], joins[at]) for at in range(3)]
    columns = {"product": "STRING", "buyer": "STRING"}
    orders = {"orders": msgspec.structs.replace(configs[0].sources["orders"], columns=columns)}
    # The last one has no source: it can still be asked.
    sources: list[dict[str, Any]] = [orders, orders, {}]
    async with contextlib.AsyncExitStack() as stack:
        agents = [
            Agent(msgspec.structs.replace(config, sources=own)) for config, own in zip(configs, sources, strict=True)
        ]
        for agent in agents:
            await agent.start()
            stack.push_async_callback(agent.stop)
        services = [Service(agent) for agent in agents]
        await wait_until(lambda: all(len(agent.catalogue.members("orders")) == 2 for agent in agents[:2]))
        for name, query in JOBS.items():
            await services[0].publish(job_text(name, query), f"{name}.toml", None, None)
        await wait_until(lambda: all(len(agent.catalogue.running()) == len(JOBS) for agent in agents[:2]))
        await wait_until(lambda: all(len(agent.attachments.progress()) == len(JOBS) for agent in agents[:2]), 60)

        async def explained(at: int, name: str) -> dict[str, Any]:
            return await services[at].explain("shop", name)

        def rows() -> int:
            masters = [(agent.masters, job.definition) for agent in agents for job in agent.masters.jobs]
            return sum(each.master(job.app_id).windows.panes()["rows"] for each, job in masters if job.name == "sold")

        await sell(agents[1], "tetris", "zelda", "tetris")
        await wait_until(lambda: rows() >= 2)
        found = await explained(1, "sold")
        assert found["filter"] == "product <> 'none'" and found["unknown"] == []
        held = found["sharing"].pop("trees")["jobs"]  # those of this very moment
        assert held in ([], ["shop/best"])
        assert found["sharing"] == {
            "parsing": {"jobs": ["shop/best", "shop/buyers", "shop/slower"], "count": 3},
            "filtering": {"jobs": ["shop/best", "shop/slower"], "count": 2},
            "paos": {"jobs": ["shop/best"], "count": 1},
            "own_columns": [],
        }
        assert (await explained(0, "buyers"))["sharing"]["own_columns"] == ["buyer"]
        assert found["tree"]["root"] == found["master"] and found["tree"]["trees"] == 1
        assert found["tree"]["agents"] >= 2 and found["tree"]["unreachable"] == 0
        cost = found["cost"]
        assert cost["agent"] == "web1" and cost["snapshot_bytes"] > 0 and cost["panes"] > 0
        assert 1 <= cost["pane_rows"] <= cost["pane_rows_max"] <= 2
        far = await explained(2, "sold")
        del far["sharing"]["trees"]
        assert far["cost"]["agent"] in ("web0", "web1") and far["sharing"] == found["sharing"]
        shown = services[1].metrics().decode()
        assert 'elf_snapshots_total{job="shop/sold"}' in shown and 'elf_snapshot_bytes_total{job="shop/sold"}' in shown

        spread = job_text("spread", QUERY) + "trees = 2\n"
        await services[1].publish(spread, "spread.toml", None, None)
        await wait_until(lambda: len(agents[1].attachments.progress()) == len(JOBS) + 2)
        found = await explained(1, "spread")
        assert found["tree"]["trees"] == 2 and "spread the keys over 2 trees" in found["steps"]["tree"][0]
        assert found["sharing"]["paos"] == {"jobs": ["shop/best", "shop/sold"], "count": 2}
        assert found["cost"]["agent"] == "web1" and found["cost"]["pane_rows"] is None

        changed = QUERY.replace("'none'", "'void'")
        await services[2].change("shop", "sold", Wanted("update", query=changed))
        async with client_of(agents[2]) as client:
            found = await client.explain("shop/sold")
            assert found["filter"] == "product <> 'void'"
            assert [each["what"] for each in found["versions"]] == ["publish", "update"] and found["version"] == 2
            with pytest.raises(UnknownJobError):
                await client.explain("shop/none")


@given(st.lists(st.integers(0, 1_000), max_size=40))
def test_the_shape_of_a_tree(parents: list[int]) -> None:
    """Node n hangs under any of those before it."""
    above = {f"{at + 1}": f"{parent % (at + 1)}" for at, parent in enumerate(parents)}
    nodes = [{"id": "0", "address": "a", "parent": None, "role": "root"}]
    nodes += [{"id": own, "address": own, "parent": parent, "role": "reducer"} for own, parent in above.items()]

    def depth(node: str) -> int:
        return 0 if node == "0" else 1 + depth(above[node])

    shape = shape_of(nodes, 3)
    assert shape["agents"] == len(parents) + 1 and shape["root"] == "a" and shape["trees"] == 3
    assert shape["depth"] == max(depth(node["id"] or "") for node in nodes)
    assert shape["children_max"] == max([list(above.values()).count(parent) for parent in above.values()], default=0)
