"""The time of day jumps by an hour, there and back: nothing stands still, every event is counted, labels say so."""

import contextlib
import pathlib
import time
from collections.abc import Iterator

import pytest

import elf
from agents.clock import BELIEVED_MS
from tests.system.cluster import make_agents, running, wait_until
from tests.system.ticking import SIZE_MS, TEXT, counts, query, through_ms, ticking, wall_ms, windows

HOUR_S = 3_600
#: What a jump may cost, at most, of a job whose windows close every second.
RESUMED_S = 15.0
LIBRARY = next(iter(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)


class TimeOfDay:
    """The clock of agents that are started in `held`, and of what is written for them."""

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        self.set_by(0)

    def set_by(self, offset_s: int) -> None:
        self.offset_s = offset_s
        # In one step: the library reads the file at every question.
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{offset_s:+d}\n")
        draft.replace(self._file)

    def __call__(self) -> int:
        return wall_ms() + self.offset_s * 1_000

    @contextlib.contextmanager
    def held(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        assert LIBRARY is not None, "scripts/setup --test installs faketime"
        with patch.context() as agents:
            agents.setenv("LD_PRELOAD", str(LIBRARY))
            agents.setenv("FAKETIME_TIMESTAMP_FILE", str(self._file))
            agents.setenv("FAKETIME_NO_CACHE", "1")
            agents.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            agents.setenv("FAKETIME_FORCE_MONOTONIC_FIX", "0")
            yield


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
