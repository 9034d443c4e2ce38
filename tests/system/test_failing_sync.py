"""A disk that takes writes and cannot make them durable: nothing is acknowledged, lost or counted twice."""

import contextlib
import json
import pathlib
import subprocess
from collections.abc import Iterator

import elf
from tests.system.cluster import AgentProcess, make_agents, running, wait_until
from tests.system.test_full_disk import RESUMED_S, push
from tests.system.ticking import TEXT, through_ms, ticking, wall_ms, windows, wrong


@contextlib.contextmanager
def failing_syncs(agent: AgentProcess) -> Iterator[None]:
    """Let every fsync and fdatasync of an agent fail with EIO while the block runs."""
    assert agent.process is not None
    calls = "fsync,fdatasync"
    fault = ["-e", f"trace={calls}", "-e", f"inject={calls}:error=EIO"]
    command = ["strace", "-f", "-o", "/dev/null", *fault, "-p", str(agent.process.pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    try:
        assert b"attached" in tracer.stderr.readline()
        yield
    finally:
        tracer.terminate()
        tracer.wait(20)
        tracer.stderr.close()


def test_a_disk_that_fails_to_sync_stops_reading_and_loses_nothing(tmp_path: pathlib.Path) -> None:
    log, pushed = tmp_path / "ticks.log", tmp_path / "pushed.log"
    log.touch()
    made = make_agents(tmp_path, [{"ticks": {"path": str(log), "format": "json"}}])
    with running(made) as (agent,), elf.connect(agent.url) as client:
        with ticking(log):
            client.publish(text=TEXT)
            wait_until(lambda: through_ms(client), "a first commit")
            with failing_syncs(agent):
                wait_until(lambda: any("source ticks" in reason for reason in agent.get_reasons()), "the intake rests")
                event = json.dumps({"ts": wall_ms(), "kind": "pushed", "number": 7}).encode() + b"\n"
                assert [push(agent, event) for _ in range(3)] == [503] * 3
                stuck_ms = through_ms(client)
                assert stuck_ms and not wrong(client, {stuck_ms - 1_000: windows(log)[stuck_ms - 1_000]})
            assert push(agent, event) == 200
            pushed.write_bytes(event)
            wait_until(lambda: through_ms(client) > stuck_ms, "commits go on", RESUMED_S)
            wait_until(agent.ready, "nothing to complain of")
        expected = windows(log, pushed)
        wait_until(lambda: not wrong(client, expected), "every window equals the log and what was acknowledged")
