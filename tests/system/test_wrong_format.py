"""A source that is read as what it is not: its agent says so, and no result over it claims to be complete."""

import pathlib

import elf
from tests.system.cluster import make_agents, running, wait_until

LINE = '192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"\n'
JOB = """
name = "hits"
creator = "ops"
query = "SELECT status, count(*) AS n FROM access GROUP BY status, window(ts, '1 second')"
columns = { status = "INT" }
"""


def test_a_wrong_format_makes_no_complete_result(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "access.log"
    log.write_text(LINE * 5)
    with running(make_agents(tmp_path, [{"access": {"path": str(log), "format": "json"}}])) as (agent,):
        with elf.connect(agent.url) as client:
            client.publish(text=JOB)
            reasons = wait_until(agent.get_reasons, "the agent is not ready")
            assert f"source access: 5 of 5 lines of {log}" in reasons[0]
            assert "such as combined" in reasons[0]
            label = wait_until(lambda: closed(client), "a window is closed")
            assert (label.status, label.gaps, label.complete) == ("final_incomplete", 1, False)
            wait_until(lambda: total(client) == 5, "each rejected line is counted")
        assert agent.messages().count("results lack these lines") == 1


def closed(client: elf.Client) -> elf.Completeness | None:
    label = client.query("ops/hits").completeness
    return None if label.status == "open" else label


def total(client: elf.Client) -> int:
    """Rejected lines in the label of a window over all there is."""
    return client.query("ops/hits", window="600s").completeness.rejected
