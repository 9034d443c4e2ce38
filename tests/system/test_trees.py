"""kill -9 of an agent that masters parts of a job with several trees: answers lack nothing unsaid, and end up exact."""

import collections
import pathlib

import elf
from tests.system.cluster import make_agents, running, wait_until
from tests.system.oracle import shop_job, shop_windows
from tests.system.test_crash import JOB, SIZE_S, SLIDE_S, differing, grown, live_logs, query, through_ms

AGENTS, TREES = 4, 3


def test_a_killed_master_of_parts_costs_no_row(tmp_path: pathlib.Path) -> None:
    logs = [tmp_path / f"clicks-{agent}.log" for agent in range(AGENTS)]
    for log in logs:
        log.touch()
    made = make_agents(tmp_path, [{"clicks": {"path": str(log), "columns": {"price_cents": "BIGINT"}}} for log in logs])
    with running(made) as agents:
        with live_logs(logs, rate=200):
            wait_until(lambda: all(log.stat().st_size > 10_000 for log in logs), "the logs grow")
            with elf.connect(agents[0].url) as client:
                client.publish(text=shop_job(SIZE_S, SLIDE_S) + f"trees = {TREES}\n")
                first_ms = wait_until(lambda: client.job(JOB)["through_ms"], "a first commit of all parts")
                masters = collections.Counter(part["master"] for part in client.job(JOB)["parts"])
            struck = next(agent for agent in agents if agent.overlay == masters.most_common(1)[0][0])
            asked = next(agent for agent in agents if agent is not struck)
            struck.kill()
            wait_until(lambda: grown(logs), "the logs grow while the agent is away")
            struck.start()
            with elf.connect(asked.url) as client:
                wait_until(lambda: through_ms(client) >= first_ms + 10_000, "commits of all parts go on")
        expected = shop_windows(logs, SIZE_S * 1_000, SLIDE_S * 1_000)
        last_end_ms = max(expected) + SIZE_S * 1_000
        with elf.connect(asked.url) as client:
            wait_until(lambda: through_ms(client) >= last_end_ms, f"commits through {last_end_ms}")
            wait_until(lambda: differing(client, expected) == [], "every window equals the files")
            assert {query(client, start_ms).completeness.status for start_ms in expected} <= {"final", "revised"}
            assert [job.key for job in client.jobs()] == [JOB]
            client.stop(JOB, keep="0s")
            wait_until(lambda: all(not agent.metric("elf_job_copies") for agent in agents), "nothing is left of it")
