"""The time of day jumps by an hour, there and back: nothing stands still, every event is counted, labels say so."""

import pathlib
import time

import pytest

import elf
from elf.agents.host.clock import BELIEVED_MS
from tests.system.cluster import make_agents, running, wait_until
from tests.system.ticking import SIZE_MS, TEXT, counts, query, through_ms, ticking, windows
from tests.system.time_of_day import TimeOfDay

HOUR_S = 3_600
#: What a jump may cost, at most, of a job whose windows close every second.
RESUMED_S = 15.0


@pytest.mark.parametrize("direction", [1, -1])
def test_an_hour_there_and_back_stops_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, direction: int
) -> None:
    clock, logs = TimeOfDay(tmp_path / "time"), [tmp_path / "one.log", tmp_path / "two.log"]
    for log in logs:
        log.touch()
    made = make_agents(tmp_path, [{"ticks": {"path": str(log), "format": "json"}} for log in logs])
    with clock.held(monkeypatch), running(made) as agents:
        with ticking(logs[0], clock), ticking(logs[1], clock), elf.connect(agents[0].url) as client:
            client.publish(text=TEXT)
            wait_until(lambda: through_ms(client), "a first commit")
            for offset_s in (direction * HOUR_S, 0):
                before_ms, read = through_ms(client), [agent.counters("ticks")["read"] for agent in agents]
                clock.set_by(offset_s)
                set_at = time.monotonic()
                wait_until(lambda b=before_ms: through_ms(client) >= b + 3 * SIZE_MS, "commits go on", RESUMED_S)
                for agent, count in zip(agents, read, strict=True):
                    wait_until(lambda a=agent, c=count: a.counters("ticks")["read"] > c, "reading goes on", RESUMED_S)
                if offset_s > 0:
                    believed_s = BELIEVED_MS / 1_000 + RESUMED_S
                    wait_until(lambda: through_ms(client) > clock() - 60_000, "the time is believed", believed_s)
                print(f"set to {offset_s:+d} s: went on after {time.monotonic() - set_at:.1f} s")
        expected = windows(*logs)
        with elf.connect(agents[0].url) as client:
            reached = {
                start_ms: rows for start_ms, rows in expected.items() if start_ms + SIZE_MS <= through_ms(client)
            }
            assert len(reached) > 4
            wait_until(lambda: not [s for s in reached if counts(query(client, s)) != reached[s]], "all are exact")
            statuses = {query(client, start_ms).completeness.status for start_ms in reached}
            assert "final_incomplete" in statuses, "what was lived through twice is labelled"
