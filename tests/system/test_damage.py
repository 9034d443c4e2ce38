"""Agents whose files were cut or flipped while they were down: they start, say so, and no result lies."""

import pathlib
import sqlite3
import urllib.request

import elf
from tests.system.cluster import AgentProcess, make_agents, running, wait_until
from tests.system.ticking import SIZE_MS, TEXT, counts, query, through_ms, ticking, wall_ms, windows


def flip(path: pathlib.Path, where: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(where * len(data))] ^= 64
    path.write_bytes(data)


def cut(path: pathlib.Path, where: float) -> None:
    path.write_bytes(path.read_bytes()[: int(where * path.stat().st_size)])


def damaged(agent: AgentProcess) -> dict[str, int]:
    """Return what the agent counts as damaged, by kind."""
    with urllib.request.urlopen(agent.url + "/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    found = (line.split('"') for line in lines if line.startswith("elf_damaged_total{"))
    return {kind: int(float(value.split()[-1])) for _, kind, value in found if float(value.split()[-1])}


def spoil_a_pane(state: pathlib.Path) -> int:
    """Change one stored pane behind the agent's back; return its interval."""
    with sqlite3.connect(state) as sql:
        query = "SELECT interval FROM history WHERE kind = 1 ORDER BY interval DESC LIMIT 1 OFFSET 2"
        (interval,) = sql.execute(query).fetchone()
        sql.execute("UPDATE history SET block = x'00' || block WHERE kind = 1 AND interval = ?", (interval,))
    sql.close()
    return int(interval)


class Site:
    """Two agents, each with a log that grows, and a job over both."""

    def __init__(self, agents: list[AgentProcess], logs: list[pathlib.Path]) -> None:
        self.logs = logs
        with elf.connect(agents[0].url) as client:
            master = client.publish(text=TEXT).master
        self.master = next(agent for agent in agents if agent.overlay == master)
        self.worker = next(agent for agent in agents if agent.overlay != master)

    def commits(self, more_ms: int = 2_000) -> int:
        """Wait until some more windows are committed; return the end of the last."""
        with elf.connect(self.master.url) as client:
            before_ms = wait_until(lambda: through_ms(client), "the master answers")
            return int(wait_until(lambda: (now := through_ms(client)) >= before_ms + more_ms and now, "commits go on"))

    def check(self) -> set[str]:
        """Hold every window that claims to be complete against the logs; return the statuses of all."""
        expected = windows(*self.logs)
        with elf.connect(self.master.url) as client:
            results = {start_ms: query(client, start_ms) for start_ms in expected}
        statuses = {start_ms: result.completeness.status for start_ms, result in results.items()}
        for start_ms, result in results.items():
            if statuses[start_ms] in ("final", "revised"):
                assert counts(result) == expected[start_ms], f"window {start_ms}: {result.completeness}"
            for kind, (count, _) in counts(result).items():
                assert count <= expected[start_ms][kind][0], "never twice"
        return set(statuses.values())


def test_damaged_files_are_set_aside_and_results_say_what_is_missing(tmp_path: pathlib.Path) -> None:
    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    for log in logs:
        log.touch()
    made = make_agents(tmp_path, [{"ticks": {"path": str(log), "format": "json"}} for log in logs])
    with running(made) as agents, ticking(logs[0]), ticking(logs[1]):
        site = Site(agents, logs)
        site.commits()

        # The worker's last transactions are gone: it is a new agent, and reads its log again.
        site.worker.kill()
        flip(site.worker.data / "state.db-wal", 0.6)
        site.worker.start()
        assert damaged(site.worker) == {"state": 1}
        assert (site.worker.data / "state.db.damaged-1").exists()
        site.commits()
        site.check()

        # The master knows its last commits no more, and that it does not.
        site.master.kill()
        cut(site.master.data / "state.db-wal", 0.9)
        site.master.start()
        assert damaged(site.master) == {"state": 1}
        doubtful_ms = wall_ms()
        site.commits()
        site.check()

        # One pane of the master, and files that only help.
        with elf.connect(site.master.url) as client:
            wait_until(lambda: through_ms(client) >= doubtful_ms + 4 * SIZE_MS, "commits that nobody doubts")
        site.master.kill()
        interval = spoil_a_pane(site.master.data / "state.db")
        (site.master.data / "contacts.json").write_bytes(b'{"version": 1, "cont')
        flip(site.master.data / "state.mark", 0.5)
        (site.master.data / "rejected" / "ticks.log").write_bytes(b"\xff\x00half a li")
        site.master.start()
        # The pane's damage is met when it is read; where agents were slow, by their late rows, before anybody asks.
        assert damaged(site.master) in ({"mark": 1}, {"mark": 1, "pane": 1})
        with elf.connect(site.master.url) as client:
            wait_until(lambda: through_ms(client), "the master answers")
            start_ms = interval * SIZE_MS
            assert start_ms > doubtful_ms
            result = query(client, start_ms)
            assert (result.completeness.status, result.completeness.gaps) == ("final_incomplete", 1)
        assert damaged(site.master) == {"mark": 1, "pane": 1}
        site.commits()
        assert site.check() >= {"final", "final_incomplete"}

        # Nothing is left of the worker's state but that it was there.
        site.worker.kill()
        (site.worker.data / "state.db").write_bytes(bytes(20_000))
        (site.worker.data / "state.db-wal").unlink()
        (site.worker.data / "contacts.json").write_bytes(b'{"version": 1, "cont')
        site.worker.start()
        assert damaged(site.worker) == {"state": 1}
        site.commits()
        assert site.check() >= {"final", "final_incomplete"}
        assert (agents[1].data / "contacts.json.damaged").exists()
        assert {agent.process.poll() for agent in agents if agent.process} == {None}
