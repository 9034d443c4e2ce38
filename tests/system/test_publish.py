"""Publish anywhere, query everywhere; and what a mistaken user is told."""

import contextlib
import json
import pathlib
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

import elf
from tests.system.cluster import AgentProcess, make_agents, running, wait_until

NAMES = ["web1", "web2", "web3"]
QUERY = "SELECT product, sum(quantity) AS n FROM {source} GROUP BY product"


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AgentProcess]]:
    """Three agents with a source that is pushed to."""
    folder = tmp_path_factory.mktemp("agents")
    made = make_agents(folder, [{"orders": {"columns": {"product": "STRING", "quantity": "BIGINT"}}}] * 3)
    with running(made):
        yield made


def job(name: str, creator: str, query: str) -> str:
    return f'name = "{name}"\ncreator = "{creator}"\nquery = """\n{query}\n"""\n[options]\ninterval = "1s"\n'


def test_pushed_events_are_counted_and_every_agent_gives_the_same_answer(agents: list[AgentProcess]) -> None:
    with elf.connect(agents[0].url) as client:
        published = client.publish(text=job("sold", "shop", QUERY.format(source="orders")))
        assert published.columns == {"product": "STRING", "quantity": "BIGINT"}
        for agent in agents:
            with elf.connect(agent.url) as other:
                rows = [{"ts": "2026-01-01T00:00:00Z", "product": agent.name, "quantity": n} for n in range(100)]
                assert other.ingest("orders", rows) == 100
        expected = [{"product": name, "n": 4_950} for name in NAMES]
        wait_until(lambda: by_product(client) == expected, "all pushed events are in the result")
    answers = []
    for agent in agents:
        with elf.connect(agent.url) as other:
            answers.append(by_product(other))
            assert other.jobs() == [published]
            assert {member.name for member in other.members()} == set(NAMES)
            assert len(other.tree("shop/sold").nodes) == 3
    assert answers == [expected] * 3


def by_product(client: elf.Client) -> list[dict[str, object]]:
    return sorted(client.query("shop/sold").rows, key=lambda row: str(row["product"]))


def test_an_unknown_job_is_answered_with_the_nearest_names(agents: list[AgentProcess]) -> None:
    with elf.connect(agents[0].url) as client:
        client.publish(text=job("stock", "shop", QUERY.format(source="orders")))
    with elf.connect(agents[1].url) as client, pytest.raises(elf.UnknownJobError) as failure:
        client.query("shop/stok")
    assert failure.value.nearest[0] == "shop/stock"


def test_a_job_that_cannot_run_is_refused_with_line_and_column(agents: list[AgentProcess]) -> None:
    with elf.connect(agents[2].url) as client:
        with pytest.raises(elf.JobSpecError, match="count") as failure:
            client.publish(text=job("wrong", "shop", "SELECT product,\n  cuont(*) AS n FROM orders GROUP BY product"))
        assert (failure.value.line, failure.value.column) == (2, 3)
        with pytest.raises(elf.JobSpecError, match="quantity"):
            client.publish(text=job("wrong", "shop", "SELECT product, sum(quantty) AS n FROM orders GROUP BY product"))
        with pytest.raises(elf.JobSpecError, match="did you mean 'orders'") as failure:
            client.publish(text=job("wrong", "shop", QUERY.format(source="order")))
        assert (failure.value.line, failure.value.column) == (1, QUERY.index("{source}") + 1)


def test_two_creators_may_use_one_name_and_stop_their_own(agents: list[AgentProcess]) -> None:
    with elf.connect(agents[0].url) as client:
        client.publish(text=job("mine", "alice", QUERY.format(source="orders")))
        client.publish(text=job("mine", "bob", "SELECT count(*) AS n FROM orders"))
        with pytest.raises(elf.JobConflictError, match="stop it first"):
            client.publish(text=job("mine", "bob", QUERY.format(source="orders")))
        assert {found.key for found in client.jobs()} >= {"alice/mine", "bob/mine"}
        client.stop("bob/mine", "0s")
        wait_until(lambda: "bob/mine" not in {found.key for found in client.jobs()}, "bob's job is gone")
        assert client.query("alice/mine").job == "alice/mine"
        client.publish(text=job("mine", "bob", QUERY.format(source="orders")))
        assert client.query("bob/mine").job == "bob/mine"


def test_a_follower_sees_each_change(agents: list[AgentProcess]) -> None:
    with elf.connect(agents[1].url) as client:
        client.publish(text=job("followed", "shop", "SELECT count(*) AS n FROM orders"))
        with contextlib.closing(client.watch("shop/followed")) as following:
            next(following)
            # What an agent has read before it took the job up belongs to no result of it.
            wait_until(lambda: works_on(agents[2], "shop/followed"), "the agent that is pushed to works on the job")
            with elf.connect(agents[2].url) as other:
                other.ingest("orders", [{"ts": "2026-01-01T00:00:00Z", "product": "x", "quantity": 1}])
            wait_until(lambda: next(following).rows[0]["n"], "the pushed event reaches the follower")


def test_a_follower_sees_a_window_early_then_final_then_revised(agents: list[AgentProcess]) -> None:
    text = job("early", "shop", "SELECT count(*) AS n FROM orders GROUP BY window(ts, '8 seconds')")
    with elf.connect(agents[0].url) as client, elf.connect(agents[2].url) as other:
        client.publish(text=text.replace('interval = "1s"', 'emit_every = "1s"'))
        wait_until(lambda: works_on(agents[2], "shop/early"), "the agent that is pushed to works on the job")
        with contextlib.closing(client.watch("shop/early")) as following:
            next(following)
            # Later intervals of the event's window are to be committed after it.
            wait_until(lambda: time.time() % 8 < 4, "a window has half of its time left")
            event = {"ts": datetime.now(UTC).isoformat(), "product": "x", "quantity": 1}
            other.ingest("orders", [event])

            def told(status: str, n: int) -> elf.Result:
                def with_rows() -> elf.Result | None:
                    result = next(following)
                    same = [row["n"] for row in result.rows] == [n]
                    return result if same and result.completeness.status.startswith(status) else None

                found: elf.Result = wait_until(with_rows, f"{n} events, {status}")
                return found

            early = told("open", 1)
            assert early.window is not None and early.through_ms is not None
            assert early.through_ms < early.window.end_ms
            final = told("final", 1)
            assert final.window == early.window
            other.ingest("orders", [event])
            revised = told("", 2)
            assert revised.window == final.window
            assert revised.completeness.revision > final.completeness.revision


def works_on(agent: AgentProcess, key: str) -> bool:
    with urllib.request.urlopen(agent.url + "/metrics") as answer:
        return f'elf_control_position{{job="{key}"}}'.encode() in answer.read()


def test_a_column_that_only_one_agent_has_seen_gets_its_type_from_there(agents: list[AgentProcess]) -> None:
    with elf.connect(agents[1].url) as client:
        client.ingest("orders", [{"ts": "2026-01-01T00:00:00Z", "product": "x", "discount": 0.5}])
    with elf.connect(agents[2].url) as client:
        published = client.publish(text=job("discounts", "shop", "SELECT avg(discount) AS d FROM orders"))
    assert published.columns == {"discount": "DOUBLE"}


def test_the_doors_for_machines_answer(agents: list[AgentProcess], tmp_path: pathlib.Path) -> None:
    assert agents[0].get("/healthz")["status"] == "alive"
    wait_until(agents[0].ready, "the jobs just published are taken up")
    with urllib.request.urlopen(agents[0].url + "/metrics") as answer:
        assert b"elf_lines_read_total" in answer.read()
    with pytest.raises(urllib.request.HTTPError) as failure:  # type: ignore[attr-defined]
        urllib.request.urlopen(agents[0].url + "/v1/jobs/shop/none/result")
    assert failure.value.headers["Content-Type"] == "application/problem+json"
    assert json.load(failure.value)["status"] == 404
