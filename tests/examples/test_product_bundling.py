"""The product-bundling example: its components are networkx's, of any edges and after each window at real agents."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import pathlib
import random
import time
import tomllib
from typing import Any

import msgspec
import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elf
from elf.agents.errors import JobError
from elf.agents.extensions import installed_applications
from elf.agents.http.agent_service import Service
from elf.agents.language.installed.entry_points import Found
from examples.product_bundling.orders import families, orders
from examples.product_bundling.product_bundling import Bundling, Components
from tests.examples.web import web_servers
from tests.overlay.cluster import wait_until

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "product_bundling"
JOB = "shop/product-bundling"
WINDOW_MS = 2_000
#: What a test can wait for.
SHORTER = {"300 seconds": "2 seconds", "30 seconds": "1 second", ">= 10": ">= 3"}
Edge = tuple[str, str]


def components(edges: set[Edge]) -> list[list[str]]:
    """What networkx says, in the example's order."""
    found = networkx.connected_components(networkx.Graph(edges))
    return sorted((sorted(each) for each in found), key=lambda each: (-len(each), each))


members = st.sampled_from("abcdefghij")
edges = st.sets(st.tuples(members, members).filter(lambda edge: edge[0] < edge[1]), max_size=14)


@given(st.lists(edges, max_size=12))
def test_components_are_those_of_networkx_however_edges_come_and_go(windows: list[set[Edge]]) -> None:
    kept = Components()
    for window in windows:
        kept.update(window)
        assert kept.all() == components(window)
        for bundle in kept.all():
            assert all(kept.of(member) == bundle for member in bundle)
    kept.update([])
    assert kept.all() == [] and kept.of("a") == []


def test_a_large_graph_that_slides_keeps_its_components() -> None:
    rng, kept, window = random.Random(5), Components(), collections.deque[set[Edge]]()
    for _ in range(40):
        pairs = ([f"{rng.randrange(2_000):04}" for _ in range(2)] for _ in range(250))
        window.append({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
        if len(window) > 5:
            window.popleft()
        kept.update(set[Edge]().union(*window))
        assert kept.all() == components(set[Edge]().union(*window))


def rows(*pairs: Edge) -> list[dict[str, Any]]:
    return [{"a": one, "b": other, "orders": 10} for one, other in pairs]


def test_bundles_follow_the_newest_window_and_a_new_master_has_them_after_its_first() -> None:
    simulation = elf.Simulation(Bundling)
    simulation.close(rows(("a", "b"), ("c", "d")), 0, 60_000)
    simulation.close(rows(("a", "b"), ("b", "c"), ("c", "d")), 30_000, 90_000)
    assert simulation.route("c") == {"product": "c", "with": ["a", "b", "d"], "end_ms": 90_000}
    simulation.close(rows(("a", "b")), 0, 60_000, revision=1)  # an older window is revised
    simulation.close(rows(("a", "b"), ("c", "d"), ("b", "e")), 30_000, 90_000, revision=1)
    simulation.fail_master("web2")
    with pytest.raises(JobError, match='on_route failed: ValueError: the query is a product, such as "Tetris"'):
        simulation.route(["c"])
    assert simulation.route("c")["with"] == []
    simulation.close(rows(("c", "d")), 60_000, 120_000)
    assert [[row["products"] for row in bundles] for bundles in simulation.published] == [
        [["a", "b"], ["c", "d"]],
        [["a", "b", "c", "d"]],
        [["a", "b", "e"], ["c", "d"]],
        [["c", "d"]],
    ]
    assert simulation.route("c") == {"product": "c", "with": ["d"], "end_ms": 120_000}


def test_the_package_names_the_application() -> None:
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())
    assert project["project"]["entry-points"][installed_applications.GROUP] == {"bundling": "product_bundling:Bundling"}
    assert project["tool"]["setuptools"]["py-modules"] == ["product_bundling"]


#: What the master's instance was told and made of it: (window's end, rows, bundles).
made: list[tuple[int, list[dict[str, Any]], list[list[str]]]] = []


class Watched(Bundling):
    """The example, watched."""

    def on_result(self, result: elf.Result) -> None:
        super().on_result(result)
        assert result.window is not None
        if result.window.end_ms == self.end_ms:
            made.append((self.end_ms, result.rows, self.components.all()))


def expected_edges(lines: list[dict[str, Any]], end_ms: int) -> set[Edge]:
    """An independent count of the edges of a window."""
    within = [line for line in lines if end_ms - WINDOW_MS <= line["ts"] < end_ms]
    counts = collections.Counter(tuple(sorted((line["product"], line["other"]))) for line in within)
    return {(one, other) for (one, other), count in counts.items() if count >= 3}


async def test_after_each_window_the_bundles_are_the_components_of_all_servers_orders(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed_applications, "_installed", Found({"bundling": Watched}, {}, {}))
    monkeypatch.setattr("examples.product_bundling.orders.SEASON_MS", 1_500)
    made.clear()
    text = (FOLDER / "job.toml").read_text()
    for written, short in SHORTER.items():
        assert text.count(written) == 1
        text = text.replace(written, short)
    lines, rng = list[dict[str, Any]](), random.Random(1)
    async with contextlib.AsyncExitStack() as stack:
        agents, urls = await stack.enter_async_context(
            web_servers(tmp_path, ["orders"], {"product": "STRING", "other": "STRING"})
        )
        client = await stack.enter_async_context(elf.connect(urls[1]))
        await client.publish(text=text)
        await wait_until(lambda: all(len(agent.attachments.progress()) == 2 for agent in agents))

        def compared() -> list[int]:
            """Windows of which each order was counted, as the newest result of each says."""
            newest = {end_ms: each for end_ms, each, _ in made}
            return [
                end_ms
                for end_ms, each in newest.items()
                if expected_edges(lines, end_ms) == {(row["a"], row["b"]) for row in each} != set()
            ]

        #: Window's end -> bundles, as an agent was told them; and as the master answers.
        told: dict[int, list[list[str]]] = {}
        answers: list[dict[str, Any]] = []
        async with asyncio.timeout(120):
            while len(compared()) < 3 or not any(answer["with"] for answer in answers):
                for agent in agents:
                    drawn = orders(rng, 40, time.time_ns() // 1_000_000)
                    lines += drawn
                    body = b"".join(msgspec.json.encode(line) + b"\n" for line in drawn)
                    await Service(agent).ingest("orders", body)
                with contextlib.suppress(elf.UnavailableError):
                    answers.append(await client.route(JOB, drawn[0]["product"]))
                    newest = await client.feedback(JOB)
                    assert newest.window is not None
                    told[newest.window.end_ms] = [row["products"] for row in newest.rows]
                await asyncio.sleep(0.05)
        for _, rows_told, bundles in made:
            assert bundles == components({(row["a"], row["b"]) for row in rows_told})
        assert len({str(bundles) for _, _, bundles in made}) > 1, "other orders, other bundles"

        for end_ms, published in told.items():
            assert published in [bundles for made_of, _, bundles in made if made_of == end_ms]
        for answer in answers:
            if answer["with"]:
                bundle = sorted([answer["product"], *answer["with"]])
                assert any(bundle in bundles for made_of, _, bundles in made if made_of == answer["end_ms"])


def test_orders_of_one_season_come_from_its_families() -> None:
    known = families(5)
    assert families(19_999) == known != families(20_000)
    assert sorted(map(len, known)) == [3] * 7 + [6]
    lines = orders(random.Random(1), 500, 5)
    assert all(line["product"] != line["other"] for line in lines)
    inside = [line for line in lines if any({line["product"], line["other"]} <= {*family} for family in known)]
    assert 0.97 * len(lines) < len(inside) < len(lines)
