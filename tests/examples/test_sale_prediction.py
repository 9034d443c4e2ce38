"""The sale-prediction example: each prediction is what a direct computation says of the same windows."""

from __future__ import annotations

import collections
import contextlib
import pathlib
import random
import time
import tomllib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elf
from elf.agents.agent import Agent
from elf.agents.errors import JobError
from elf.agents.extensions import installed_applications
from elf.agents.http.agent_service import Service
from elf.agents.language.installed.entry_points import Found
from examples.product_bundling.product_bundling import Bundling
from examples.sale_prediction.sale_prediction import BUNDLING, PROMOTION, Prediction, predict
from tests.examples.test_product_bundling import components
from tests.examples.web import web_servers

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
JOB = "shop/sale-prediction"
WINDOW_MS = 2_000
#: What a test can wait for.
SHORTER = {"300 seconds": "2 seconds", "30 seconds": "1 second", ">= 10": ">= 3", '"6s"': '"500ms"'}
PRODUCTS = ("Angry Birds", "Tetris", "Dune", "Kite", "Doom", "Myst")
GAMES = ("Angry Birds", "Tetris", "Doom", "Myst")

names = st.sampled_from(PRODUCTS)


@given(names, st.integers(0, 99), st.sets(names), st.dictionaries(names, st.integers(1, 50)))
def test_an_outlook_is_the_share_of_clicks_on_a_product_and_its_peers(
    product: str, clicks: int, together: set[str], top: dict[str, int]
) -> None:
    row = predict(product, clicks, sorted(together), top)
    wanted = {product} | together
    assert (row["product"], row["clicks"], row["together"]) == (product, clicks, sorted(together))
    assert set(row["popular"]) == {each for each in top if each in wanted}
    assert [top[each] for each in row["popular"]] == sorted((top[each] for each in row["popular"]), reverse=True)
    total = sum(top.values())
    assert row["outlook"] == (sum(n for each, n in top.items() if each in wanted) / total if total else 0.0)


def rows(**clicks: int) -> list[dict[str, Any]]:
    return [{"product": product, "clicks": n} for product, n in clicks.items()]


def test_only_windows_of_the_same_time_are_joined_and_troubles_are_said() -> None:
    simulation = elf.Simulation(Prediction, job=JOB)
    assert simulation.subscribed == {PROMOTION}
    bundles = {"Tetris": {"with": ["Doom"]}, "Dune": {"with": []}}

    def answer(asker: str, query: Any) -> Any:
        if query not in bundles:
            raise JobError("the agent is too busy")
        return bundles[query]

    simulation.answer(BUNDLING, answer)
    simulation.close(rows(Tetris=5, Doom=15), 0, 60_000, job=PROMOTION)
    simulation.close(rows(Tetris=5, Dune=2), 60_000, 120_000)
    simulation.run(1_000)
    assert simulation.published == [], "what is popular at that time is not known yet"
    simulation.close(rows(Tetris=4, Myst=12), 60_000, 120_000, job=PROMOTION)
    assert simulation.published == [
        [
            {"product": "Tetris", "clicks": 5, "together": ["Doom"], "popular": ["Tetris"], "outlook": 0.25},
            {"product": "Dune", "clicks": 2, "together": [], "popular": [], "outlook": 0.0},
        ]
    ]
    assert simulation.route("Tetris") == {**simulation.published[0][0], "end_ms": 120_000}
    with pytest.raises(JobError, match="of 'Kite' there is no prediction; there are Dune, Tetris"):
        simulation.route("Kite")
    del bundles["Dune"]
    simulation.close(rows(Tetris=4), 120_000, 180_000, job=PROMOTION)
    simulation.close(rows(Dune=3), 120_000, 180_000)
    simulation.run(1_000)
    assert simulation.published[-1] == [{"product": "Dune", "clicks": 3, "trouble": "the agent is too busy"}]
    simulation.close(rows(Tetris=9), 60_000, 120_000, revision=1)
    assert len(simulation.published) == 2, "an older window is revised"


def test_the_package_names_the_application() -> None:
    project = tomllib.loads((EXAMPLES / "sale_prediction" / "pyproject.toml").read_text())
    assert project["project"]["entry-points"][installed_applications.GROUP] == {
        "prediction": "sale_prediction:Prediction"
    }
    assert project["tool"]["setuptools"]["py-modules"] == ["sale_prediction"]


#: Window's end -> what is bought together, as bundling's rows said; the newest last.
bundled: dict[int, list[set[tuple[str, str]]]] = {}
#: What bundling answered, with the window that it was of.
answered: list[tuple[str, list[str], int]] = []


class WatchedBundling(Bundling):
    """Product-bundling, watched."""

    def on_result(self, result: elf.Result) -> None:
        super().on_result(result)
        assert result.window is not None
        bundled.setdefault(result.window.end_ms, []).append({(row["a"], row["b"]) for row in result.rows})

    def on_route(self, asker: str, query: Any) -> Any:
        answer = super().on_route(asker, query)
        answered.append((answer["product"], answer["with"], answer["end_ms"]))
        return answer


class Web:
    """What is clicked and bought on all servers."""

    def __init__(self) -> None:
        self.rng, self.clicks = random.Random(3), list[dict[str, Any]]()

    async def draw(self, agents: list[Agent]) -> None:
        """Let each server log some clicks and orders of this moment."""
        now_ms = time.time_ns() // 1_000_000
        for agent in agents:
            clicks = []
            for _ in range(12):
                product = self.rng.choice(PRODUCTS)
                category = "Video Games" if product in GAMES else "Books"
                event = self.rng.choice(["click", "view"])
                clicks.append({"ts": now_ms, "event": event, "category": category, "product": product})
            pairs = [("Angry Birds", "Doom"), ("Tetris", "Dune")] if now_ms // 1_500 % 2 else [("Doom", "Tetris")]
            orders = [{"ts": now_ms, "product": one, "other": other} for one, other in pairs]
            self.clicks += clicks
            for source, lines in (("clicks", clicks), ("orders", orders)):
                await Service(agent).ingest(source, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def counted(self, end_ms: int, products: tuple[str, ...]) -> dict[str, int]:
        """An independent count of a window's clicks."""
        found = collections.Counter(
            line["product"]
            for line in self.clicks
            if end_ms - WINDOW_MS <= line["ts"] < end_ms and line["event"] == "click" and line["product"] in products
        )
        return dict(found)


async def test_predictions_are_a_direct_computation_over_the_same_windows(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Found({"bundling": WatchedBundling, "prediction": Prediction}, {}, {})
    monkeypatch.setattr(installed_applications, "_installed", found)
    bundled.clear()
    answered.clear()
    web, columns = Web(), dict.fromkeys(("product", "other", "event", "category"), "STRING")
    async with contextlib.AsyncExitStack() as stack:
        agents, urls = await stack.enter_async_context(web_servers(tmp_path, ["clicks", "orders"], columns))
        client = await stack.enter_async_context(elf.connect(urls[1]))
        for name in ("micro_promotion", "product_bundling", "sale_prediction"):
            job = (EXAMPLES / name / "job.toml").read_text()
            for written, short in SHORTER.items():
                job = job.replace(written, short)
            await client.publish(text=job)
        told: dict[int, elf.Result] = {}
        end_s = time.monotonic() + 120
        while True:
            await web.draw(agents)
            with contextlib.suppress(elf.UnavailableError):
                newest = await client.feedback(JOB)
                assert newest.window is not None
                told[newest.window.end_ms] = newest
            right = [end_ms for end_ms, result in told.items() if _is_right(result, web)]
            if len(right) >= 3 and {str(told[end_ms].rows) for end_ms in right} != {str(told[right[0]].rows)}:
                break
            assert time.monotonic() < end_s, f"{told} of {sorted(bundled)}"
        one = await client.route(JOB, "Tetris")
        assert one["product"] == "Tetris" and one["end_ms"] >= max(told)


def _is_right(result: elf.Result, web: Web) -> bool:
    """Tell whether a result is what the clicks and the bundles of its time say; others are of late clicks."""
    assert result.window is not None
    end_ms = result.window.end_ms
    clicks = web.counted(end_ms, ("Angry Birds", "Tetris", "Dune", "Kite"))
    top = web.counted(end_ms, GAMES)
    if {row["product"]: row["clicks"] for row in result.rows} != clicks:
        return False
    for row in result.rows:
        assert any(
            product == row["product"] and sorted(peers) == row["together"] and _is_bundle(product, peers, of_ms)
            for product, peers, of_ms in answered
        ), f"{row} is nothing that bundling has said"
        popular = {row["product"], *row["together"]} & top.keys()
        if set(row["popular"]) != popular or row["outlook"] != sum(top[each] for each in popular) / sum(top.values()):
            return False
    return True


def _is_bundle(product: str, peers: list[str], of_ms: int) -> bool:
    """Tell whether networkx finds the same in what bundling was given of that time."""
    wanted = sorted([product, *peers]) if peers else []
    return any(
        wanted in components(edges) if peers else all(product not in each for each in components(edges))
        for edges in bundled.get(of_ms, [set()])
    )
