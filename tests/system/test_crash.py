"""kill -9 in the middle of open windows, the master included: after a restart every window ends up exact."""

import contextlib
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

import elf
from tests.system.cluster import make_agents, running, wait_until
from tests.system.oracle import shop_job, shop_windows

AGENTS = 3
SIZE_S, SLIDE_S = 6, 2
JOB = "shop/micro-promotion"


@contextlib.contextmanager
def live_logs(logs: Sequence[pathlib.Path], rate: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Let the generator write the logs as a live shop would, until the block ends."""
    live = [sys.executable, "-m", "elf.demo.clicks", "--live", "--rate", str(rate)]
    writers = [
        subprocess.Popen([*live, "--seed", str(seed), "--out", log], stderr=subprocess.DEVNULL)
        for seed, log in enumerate(logs)
    ]
    try:
        yield writers
    finally:
        for writer in writers:
            writer.send_signal(signal.SIGTERM)
        for writer in writers:
            writer.wait(20)


@pytest.mark.parametrize("victim", ["a worker", "the master"])
def test_windows_open_at_a_kill_end_up_exact(tmp_path: pathlib.Path, victim: str) -> None:
    logs = [tmp_path / f"clicks-{agent}.log" for agent in range(AGENTS)]
    for log in logs:
        log.touch()
    made = make_agents(tmp_path, [{"clicks": {"path": str(log), "columns": {"price_cents": "BIGINT"}}} for log in logs])
    with running(made) as agents:
        with live_logs(logs, rate=400):
            wait_until(lambda: all(log.stat().st_size > 10_000 for log in logs), "the logs grow")
            with elf.connect(agents[0].url) as client:
                master = client.publish(text=shop_job(SIZE_S, SLIDE_S)).master
                first_ms = wait_until(lambda: client.job(JOB)["through_ms"], "a first commit")
            struck = next(agent for agent in agents if (agent.overlay == master) == (victim == "the master"))
            struck.kill()
            wait_until(lambda: grown(logs), "the logs grow while the agent is away")
            struck.start()
            with elf.connect(agents[0].url) as client:
                wait_until(lambda: through_ms(client) >= first_ms + 10_000, "commits go on after the restart")
        expected = shop_windows(logs, SIZE_S * 1_000, SLIDE_S * 1_000)
        last_end_ms = max(expected) + SIZE_S * 1_000
        with elf.connect(agents[-1].url) as client:
            wait_until(lambda: through_ms(client) >= last_end_ms, f"commits through {last_end_ms}")
            wait_until(lambda: differing(client, expected) == [], "every window equals the files")
            statuses = {query(client, start_ms).completeness.status for start_ms in expected}
        assert statuses <= {"final", "revised"}, statuses
        for agent in agents:
            ends = agent.counters("clicks")
            assert ends["read"] == sum(count for end, count in ends.items() if end != "read")


def test_an_agent_that_lost_its_disk_reads_its_log_again_but_nothing_is_counted_twice(tmp_path: pathlib.Path) -> None:
    logs = [tmp_path / f"clicks-{agent}.log" for agent in range(AGENTS)]
    for log in logs:
        log.touch()
    made = make_agents(tmp_path, [{"clicks": {"path": str(log), "columns": {"price_cents": "BIGINT"}}} for log in logs])
    with running(made) as agents:
        with live_logs(logs, rate=400):
            wait_until(lambda: all(log.stat().st_size > 10_000 for log in logs), "the logs grow")
            with elf.connect(agents[0].url) as client:
                master = client.publish(text=shop_job(SIZE_S, SLIDE_S)).master
                first_ms = wait_until(lambda: client.job(JOB)["through_ms"], "a first commit")
            struck = next(agent for agent in agents[1:] if agent.overlay != master)
            head = next(agent for agent in agents if agent.overlay == master)
            struck.kill()
            shutil.rmtree(struck.data)
            struck.start()
            with elf.connect(head.url) as client:
                wait_until(lambda: through_ms(client) >= first_ms + 10_000, "commits go on after the loss")
        expected = shop_windows(logs, SIZE_S * 1_000, SLIDE_S * 1_000)
        last_end_ms = max(expected) + SIZE_S * 1_000
        with elf.connect(head.url) as client:
            wait_until(lambda: through_ms(client) >= last_end_ms, f"commits through {last_end_ms}")
            wait_until(lambda: differing(client, expected) == [], "every window equals the files")
            assert client.job(JOB)["roster"] == sorted(agent.name for agent in agents)


def grown(logs: Sequence[pathlib.Path], sizes: list[int] = []) -> bool:  # noqa: B006 - remembers the first call
    if not sizes:
        sizes.extend(log.stat().st_size + 300_000 for log in logs)
    if all(log.stat().st_size > size for log, size in zip(logs, sizes, strict=True)):
        sizes.clear()
        return True
    return False


def through_ms(client: elf.Client) -> int:
    try:
        return int(client.job(JOB)["through_ms"] or 0)
    except elf.UnavailableError:
        return 0


def query(client: elf.Client, start_ms: int) -> elf.Result:
    return client.query(JOB, window=f"{start_ms}/{start_ms + SIZE_S * 1_000}")


def differing(client: elf.Client, expected: dict[int, list[tuple[str, int, int]]]) -> list[int]:
    return [start for start, rows in expected.items() if [tuple(r.values()) for r in query(client, start).rows] != rows]
