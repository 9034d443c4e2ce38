"""A disk of one mebibyte that fills up: the intake rests, questions are answered, and afterwards nothing is missing."""

import contextlib
import pathlib
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

import elf
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, Panes
from tests.system.cluster import AgentProcess, make_agents, running, wait_until
from tests.system.ticking import JOB, TEXT, query, through_ms, ticking, windows, wrong

#: The most that reading may take to go on once there is room.
RESUMED_S = 5.0


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, size: str = "1m") -> Iterator[None]:
    """Let a folder be a disk of its own."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill_up(file: pathlib.Path) -> None:
    """Write until nothing more fits."""
    with contextlib.suppress(OSError), file.open("ab", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


def push(agent: AgentProcess, body: bytes) -> int:
    """Push lines and return the answer's status."""
    request = urllib.request.Request(f"{agent.url}/v1/ingest/ticks", body, {"content-type": "application/x-ndjson"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_write_ahead_log_never_fills_the_disk_for_good(tmp_path: pathlib.Path) -> None:
    with small_disk(tmp_path / "web1"):
        database = Database(tmp_path / "web1" / "state.db")
        panes = Panes(database)
        for number in range(60):
            panes.replace(b"app", {(Kind.PANE, number % 3): bytes([number]) * 100_000}, [])
        fill_up(tmp_path / "web1" / "filler")
        with pytest.raises(sqlite3.OperationalError, match="full"):
            panes.replace(b"app", {(Kind.PANE, 4): bytes(800_000)}, [])
        (tmp_path / "web1" / "filler").unlink()
        assert [panes.block(b"app", Kind.PANE, number)[0] for number in range(3)] == [57, 58, 59]
        panes.replace(b"app", {(Kind.PANE, 4): bytes(200_000)}, [])
        database.close()


def test_a_full_disk_stops_reading_but_no_question_and_loses_nothing(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "ticks.log"
    log.touch()
    with small_disk(tmp_path / "web1"):
        made = make_agents(tmp_path, [{"ticks": {"path": str(log), "format": "json"}}])
        with running(made) as (agent,), elf.connect(agent.url) as client:
            with ticking(log):
                client.publish(text=TEXT)
                first_ms = wait_until(lambda: through_ms(client), "a first commit")
                fill_up(agent.data / "filler")
                wait_until(lambda: any("source ticks" in reason for reason in agent.get_reasons()), "the intake rests")
                read = agent.counters("ticks")["read"]
                assert push(agent, b'{"ts": 0, "kind": "pushed", "number": 1}\n') == 503
                assert query(client, first_ms - 4_000).completeness.status == "final"
                assert client.job(JOB)["roster"] == ["web1"]
                assert agent.counters("ticks")["read"] == read
                stuck_ms = through_ms(client)
                (agent.data / "filler").unlink()
                freed = time.monotonic()
                wait_until(
                    lambda: agent.counters("ticks")["read"] > read and through_ms(client) > stuck_ms,
                    "reading and commits go on",
                    RESUMED_S,
                )
                print(f"went on after {time.monotonic() - freed:.2f} s")
                wait_until(lambda: agent.ready(), "nothing to complain of")
            expected = windows(log)
            wait_until(lambda: not wrong(client, expected), "every window equals the log")
            assert query(client, 0).rows == []
