"""`elf` as a process: start-up, pipes, signals, a real terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.http.fake_service import make_result
from tests.elf.fake_agent import Agent

ELF = [sys.executable, "-W", "error", "-m", "elf"]
HEAVY = ("polars", "pyspark", "aiohttp", "sqlglot", "numpy")


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "COLUMNS": "100", **changes}


def test_help_and_version_load_nothing_heavy() -> None:
    code = "import sys; sys.argv = ['elf', '--help']\nfrom elf.cli.start import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    code += f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert all(word in done.stdout for word in ("agent", "publish", "query", "watch", "verify", "Exit codes"))
    version = subprocess.run([*ELF, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == "elf 0.1.0\n"


def test_a_query_over_a_log_does_not_load_masked_arrays(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text("SELECT status, count(*) AS n FROM log GROUP BY status")
    line = '127.0.0.1 - - [25/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-"\n'
    (tmp_path / "access.log").write_text(line * 20_000)
    arguments = ["elf", "run", "--once", "--input", "access.log", "--format", "combined", "job.sql"]
    code = (
        f"import sys; sys.argv = {arguments!r}\nfrom elf.cli.start import main\ntry: main()\nexcept SystemExit: pass\n"
    )
    # Functions of NumPy that load them, such as `unique`, cost each agent's start 15 ms and 2 MB.
    code += "print([m for m in sys.modules if m in ('numpy.ma', 'numpy.random')], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[0])["n"] == 20_000
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", r'"\u00e9"'), ("latin-1", r'"\u00e9"'), ("utf-8", '"é"')])
def test_rows_are_json_whatever_a_pipe_is_taken_for(tmp_path: Path, encoding: str, shown: str) -> None:
    (tmp_path / "job.sql").write_text("SELECT p FROM log GROUP BY p")
    (tmp_path / "a.log").write_text('{"ts": 1795589180000, "p": "é"}\n', encoding="utf-8")
    command = [*ELF, "run", "--input", "a.log", "job.sql"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, check=True, env=environment(PYTHONIOENCODING=encoding)
    )
    assert done.stdout.decode() == f'{{"p":{shown}}}\n'


#: What takes a tenth of a second or more to import, or brings what does.
HEAVY = ("aiohttp", "asyncio", "cryptography", "kademlia", "numpy", "polars", "prometheus_client", "sqlglot")
LOADED = f"""
import sys
from elf.cli.start import main
try:
    main()
finally:
    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["jobs", "--help"], ["--version"]])
def test_help_loads_nothing_that_takes_long(arguments: list[str]) -> None:
    """The promise is 0.3 s on a quiet machine; that is `scripts/bench`'s to measure."""
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "code"), [(["jobs", "--agent", "http://127.0.0.1:9", "--timeout", "0.5"], 69), (["bogus"], 2)]
)
def test_exit_codes_without_tracebacks(arguments: list[str], code: int) -> None:
    done = subprocess.run([*ELF, *arguments], capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(("debug", "code"), [("", 70), ("1", 1)])
def test_our_own_mistakes_are_a_sentence_too(tmp_path: Path, debug: str, code: int) -> None:
    broken = "import os, sys, elf.cli.start as start; os.urandom = None; start.main()"
    command = [sys.executable, "-c", broken, "keygen", "--out", str(tmp_path / "key")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(ELF_DEBUG=debug))
    assert (done.returncode, "Traceback" in done.stderr) == (code, bool(debug))
    assert "TypeError: 'NoneType' object is not callable" in done.stderr


def test_a_reader_that_leaves_is_no_error(agent: Agent) -> None:
    agent.service.result_of["shop", "top"] = make_result(rows=[{"product": "x" * 1000, "clicks": 1}] * 1000)
    process = subprocess.Popen(
        [*ELF, "query", "top"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(ELF_AGENT=agent.url),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(20) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["query", "top"], ["query", "missing-of-top"]])
def test_output_that_cannot_be_written_is_said(agent: Agent, arguments: list[str], unbuffered: str) -> None:
    # More than a buffer: what is written directly is not tried again by the last flush.
    agent.service.result_of["shop", "top"] = make_result(rows=[{"product": "x" * 1000, "clicks": 1}] * 1000)
    env = environment(ELF_AGENT=agent.url, PYTHONUNBUFFERED=unbuffered)
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*ELF, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=env)
    if arguments[-1] == "missing-of-top":  # has nothing to write, and its own error
        assert (done.returncode, "there is no job" in done.stderr) == (2, True)
        return
    said = "elf: the output could not be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_output_that_nobody_takes_is_no_error(agent: Agent) -> None:
    command = f"exec {shlex.join([*ELF, 'query', 'top'])} >&-"
    done = subprocess.run(
        command, shell=True, stderr=subprocess.PIPE, check=False, env=environment(ELF_AGENT=agent.url)
    )
    assert (done.returncode, b"internal error" in done.stderr) == (0, False)


def test_ctrl_c_ends_a_watch_quietly(agent: Agent) -> None:
    process = subprocess.Popen(
        [*ELF, "watch", "top"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(ELF_AGENT=agent.url),
    )
    assert process.stdout is not None
    agent.send(make_result())
    assert json.loads(process.stdout.readline())["job"] == "shop/top"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, "")


@pytest.mark.parametrize(("changes", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_a_table(agent: Agent, changes: dict[str, str], coloured: bool) -> None:
    leader, follower = pty.openpty()
    env = environment(ELF_AGENT=agent.url, TERM="xterm-256color", **changes)
    env.pop("NO_COLOR", None) if coloured else None
    process = subprocess.Popen([*ELF, "query", "top"], stdout=follower, stderr=subprocess.DEVNULL, env=env)
    os.close(follower)
    shown = b""
    while select.select([leader], [], [], 20)[0]:
        try:
            part = os.read(leader, 65_536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert process.wait(20) == 0
    assert b"tetris" in shown
    assert b"{" not in shown
    assert (b"\x1b[32m" in shown) == coloured
