"""One agent's clock is two minutes ahead from its start, and set right later: no label claims rows that it has yet to
read, no window closes before it is over, and the agent says what is wrong."""

import contextlib
import pathlib
import time
import urllib.error

import pytest

import elf
from tests.system.cluster import AgentProcess, make_agents, wait_until
from tests.system.ticking import SIZE_MS, TEXT, counts, query, through_ms, ticking, wall_ms, windows
from tests.system.time_of_day import TimeOfDay

AHEAD_S = 120
#: Between two lines of a log: long enough that agents find nothing more in it, and go by the clock.
PAUSE_S = 0.3
#: So long answers are looked at.
LOOK_S = 15.0
#: Patient enough for a thread of this test that waits for its turn between the date of a line and the line.
JOB_TEXT = TEXT.replace('lateness = "500 ms"', 'lateness = "2s"')


def lives(agent: AgentProcess) -> bool:
    try:
        return bool(agent.get("/healthz"))
    except (OSError, urllib.error.HTTPError):
        return False


def look(client: elf.Client, logs: list[pathlib.Path], from_ms: int) -> tuple[set[int], set[int]]:
    """Ask for all windows for a while; return those that were called complete, and of these those that were not."""
    complete, wrong = set[int](), set[int]()
    until_s = time.monotonic() + LOOK_S
    while time.monotonic() < until_s:
        through = through_ms(client)
        assert through <= wall_ms(), f"closed {through - wall_ms()} ms before it was over"
        for start_ms in range(from_ms, through, SIZE_MS):
            result = query(client, start_ms)
            if result.completeness.complete:
                complete.add(start_ms)
                if counts(result) != windows(*logs)[start_ms]:
                    wrong.add(start_ms)
        time.sleep(0.2)
    return complete, wrong


@pytest.mark.parametrize("ahead", [0, 1])
def test_an_agent_that_is_ahead_from_its_start_speaks_for_nothing_that_it_has_not_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    clock, logs = TimeOfDay(tmp_path / "time"), [tmp_path / "one.log", tmp_path / "two.log"]
    clock.set_by(AHEAD_S)
    for log in logs:
        log.touch()
    agents = make_agents(tmp_path, [{"ticks": {"path": str(log), "format": "json"}} for log in logs])
    try:
        for number, agent in enumerate(agents):
            with clock.held(monkeypatch) if number == ahead else contextlib.nullcontext():
                agent.launch()
            wait_until(lambda a=agent: lives(a), f"{agent.name} lives")
        wait_until(lambda: len(agents[0].get("/v1/members")["members"]) == 2, "they know each other")
        with (
            ticking(logs[0], pause_s=PAUSE_S),
            ticking(logs[1], pause_s=PAUSE_S),
            elf.connect(agents[1 - ahead].url) as client,
        ):
            client.publish(text=JOB_TEXT)
            wait_until(lambda: through_ms(client), "a first commit")
            first_ms = -(-wall_ms() // SIZE_MS) * SIZE_MS
            complete, wrong = look(client, logs, first_ms)
            assert not wrong, f"{len(wrong)} of {len(complete)} lacked rows"
            assert len(complete) > 4
            said = f"this machine's clock is {AHEAD_S} s ahead of"
            assert any(said in reason for reason in agents[ahead].get_reasons()), agents[ahead].get_reasons()
            assert agents[1 - ahead].get_reasons() == []
            clock.set_by(0)
            since_ms = through_ms(client)
            complete, wrong = look(client, logs, since_ms)
            assert not wrong
            assert len(complete) > 4
            wait_until(agents[ahead].ready, "all is well")
    finally:
        for agent in agents:
            agent.stop()
