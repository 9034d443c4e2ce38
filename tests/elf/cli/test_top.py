"""`elf top`: once, in a pipe, and live on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading

import msgspec

from elf.agents.wire.result import Result
from elf.cli.top import newest_of
from tests.agents.http.fake_service import make_result
from tests.elf.cli.test_jobs import run
from tests.elf.fake_agent import Agent


def test_once(agent: Agent) -> None:
    shown = run(agent, "top", "top", "--once", "--limit", "1")
    assert shown.exit_code == 0
    assert "shop/top" in shown.stdout and "tetris" in shown.stdout and "1 more row" in shown.stdout
    assert json.loads(run(agent, "top", "top", "--once", "--json").stdout)["job"] == "shop/top"
    agent.service.result_of["shop", "top"] = make_result(rows=[])
    assert run(agent, "top", "top", "--once").exit_code == 1
    assert run(agent, "top", "nothing", "--once").exit_code == 2


def test_in_a_pipe_tables_follow_each_other(agent: Agent) -> None:
    sending = threading.Thread(target=agent.send, args=(make_result(), make_result(end_ms=90_000), None))
    sending.start()
    shown = run(agent, "top", "top")
    sending.join()
    assert shown.exit_code == 0
    assert [line.split()[4] for line in shown.stdout.splitlines() if line.startswith("shop/top")] == [
        "00:01:00",
        "00:01:30",
    ]
    assert "\x1b" not in shown.stdout


def test_a_window_that_is_older_than_the_one_shown_is_left_out() -> None:
    windows = [(60_000, 1), (90_000, 1), (60_000, 1), (90_000, 1), (30_000, 2), (None, 2), (60_000, 2)]
    results = [
        msgspec.convert(make_result(version=version, **({"end_ms": end_ms} if end_ms else {"window": None})), Result)
        for end_ms, version in windows
    ]
    shown = [result.window.end_ms if result.window else None for result in newest_of(results)]
    assert shown == [60_000, 90_000, 90_000, 30_000, None, 60_000]


def test_live_on_a_narrow_terminal(agent: Agent) -> None:
    """The real command on a real terminal: it draws, and ends with the job."""
    leader, follower = pty.openpty()
    environment = os.environ | {"ELF_AGENT": agent.url, "COLUMNS": "40", "LINES": "12", "TERM": "xterm"}
    command = [sys.executable, "-m", "elf", "top", "top"]
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=subprocess.PIPE, env=environment)
    os.close(follower)
    rows = [{"product": f"\x1b[2Jgame {i}", "clicks": i} for i in range(50)]
    agent.send(make_result(rows=rows), None)
    seen = b""
    while True:
        try:
            seen += os.read(leader, 65_536)
        except OSError:  # whoever wrote has gone
            break
    os.close(leader)
    _, messages = process.communicate()
    assert (process.returncode, messages.decode()) == (0, "top was stopped\n")
    assert rb"\x1b[2Jgame 3" in seen and b"\x1b[2Jgame" not in seen
    assert b"more rows" in seen
