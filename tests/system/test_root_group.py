"""A master is lost: another member of its root group has everything and goes on; who comes back takes its place."""

import pathlib
import shutil

import pytest

import elf
from tests.system.cluster import DEADLINE_S, AgentProcess, make_agents, running, wait_until
from tests.system.oracle import shop_job, shop_windows
from tests.system.test_crash import JOB, SIZE_S, SLIDE_S, differing, live_logs, query, through_ms

AGENTS = 6


def make(folder: pathlib.Path) -> tuple[list[pathlib.Path], list[AgentProcess]]:
    logs = [folder / f"clicks-{agent}.log" for agent in range(AGENTS)]
    for log in logs:
        log.touch()
    made = make_agents(folder, [{"clicks": {"path": str(log), "columns": {"price_cents": "BIGINT"}}} for log in logs])
    return logs, made


def members(client: elf.Client) -> dict[str, bool]:
    return {member["name"]: member["votes"] for member in client.job(JOB)["group"]["members"]}


@pytest.mark.parametrize("disk", ["kept", "lost"])
def test_a_lost_master_is_replaced_and_windows_of_before_are_still_answered(tmp_path: pathlib.Path, disk: str) -> None:
    logs, made = make(tmp_path)
    with running(made) as agents:
        with live_logs(logs, rate=200):
            wait_until(lambda: all(log.stat().st_size > 10_000 for log in logs), "the logs grow")
            with elf.connect(agents[0].url) as client:
                first = client.publish(text=shop_job(SIZE_S, SLIDE_S)).master
                wait_until(lambda: sum(members(client).values()) == 5, "five agents have a vote")
                first_ms = wait_until(lambda: client.job(JOB)["through_ms"], "a first commit")
            struck = next(agent for agent in agents if agent.overlay == first)
            other = next(agent for agent in agents if agent is not struck)
            # The one that is struck is asked first, then nobody answers for the job for a moment.
            with elf.connect([struck.url, other.url], timeout=DEADLINE_S) as client:
                wait_until(lambda: through_ms(client) >= first_ms + 4_000, "commits go on")
                before_ms = through_ms(client)
                old = query(client, before_ms - SIZE_S * 1_000)
                assert old.master == first
                struck.kill()
                again = query(client, before_ms - SIZE_S * 1_000)
                assert again.rows == old.rows and again.completeness.status == "final"
                assert again.master not in ("", first), "it was asked again until another agent was the master"
                wait_until(lambda: through_ms(client) >= before_ms + 6_000, "commits go on without the old master")
                lacking = query(client, through_ms(client) - SIZE_S * 1_000).completeness
                assert lacking.status == "final_incomplete" and lacking.missing == [struck.name], lacking
            if disk == "lost":
                shutil.rmtree(struck.data)
                # The first of the agents was told of nobody to join through, and has forgotten whom it knew.
                source = {"path": str(logs[agents.index(struck)]), "columns": {"price_cents": "BIGINT"}}
                struck.configure({"clicks": source}, [other.overlay])
            struck.start()
            with elf.connect(other.url) as client:
                wait_until(lambda: through_ms(client) >= before_ms + 12_000, "commits go on with it")
        expected = shop_windows(logs, SIZE_S * 1_000, SLIDE_S * 1_000)
        last_end_ms = max(expected) + SIZE_S * 1_000
        with elf.connect(struck.url) as client:
            wait_until(lambda: through_ms(client) >= last_end_ms, f"commits through {last_end_ms}")
            wait_until(lambda: differing(client, expected) == [], "every window equals the files")
            client.stop(JOB, "0s")
            wait_until(lambda: all(not copies(agent) for agent in agents), "no agent keeps anything of a stopped job")


def test_an_operator_lets_the_last_member_go_on_alone(tmp_path: pathlib.Path) -> None:
    logs, made = make(tmp_path)
    with running(made[:3]) as agents, live_logs(logs[:3], rate=100):
        wait_until(lambda: all(log.stat().st_size > 10_000 for log in logs[:3]), "the logs grow")
        with elf.connect(agents[0].url) as client:
            client.publish(text=shop_job(SIZE_S, SLIDE_S))
            wait_until(lambda: sum(members(client).values()) == 3, "three agents have a vote")
            wait_until(lambda: client.job(JOB)["through_ms"], "a first commit")
        last, *lost = agents
        for agent in lost:
            agent.kill()
        with elf.connect(last.url) as client:
            with pytest.raises(elf.ElfError):
                client.force("shop/no-such-job")
            wait_until(lambda: forced(client), "the last member may go on alone")
            before_ms = wait_until(lambda: through_ms(client), "it answers")
            # The others may listen, until it has heard that they are gone; nobody else decides.
            assert [name for name, votes in members(client).items() if votes] == [last.name]
            wait_until(lambda: through_ms(client) >= before_ms + 4_000, "commits go on")
            with pytest.raises(elf.ElfError, match="nothing needs to be forced"):
                client.force(JOB)
        for agent in lost:
            agent.start()


def forced(client: elf.Client) -> bool:
    try:
        client.force(JOB)
    except elf.JobError:
        return False  # the leader has not been given up yet
    return True


def copies(agent: AgentProcess) -> float:
    """Return how many copies of masters an agent keeps, from /metrics."""
    return agent.metric("elf_job_copies")
