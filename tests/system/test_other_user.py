"""A second user of the machine, without rights: cannot read, publish, stop, or make an agent write anywhere else."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Sequence

import pytest

import elf
from tests.system.cluster import AgentProcess, running, wait_until

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can be somebody else"
)
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
#: Whatever the umask of who starts the agent.
WITHOUT_UMASK = ("sh", "-c", 'umask 0; exec "$@"', "sh")
JOB = 'name = "boss"\ncreator = "ops"\nquery = "SELECT count(*) AS n FROM access"\n[options]\ninterval = "1s"\n'
#: Asks an agent as the first argument says (method, URL, body) and prints the status.
ASK = """
import sys, urllib.error, urllib.request
method, url, body = sys.argv[1:]
kind = {"Content-Type": "application/json"}
asked = urllib.request.Request(url, data=body.encode() or None, method=method, headers=kind)
try:
    print(urllib.request.urlopen(asked, timeout=20).status)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


def as_nobody(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*NOBODY, *command], capture_output=True, text=True, check=False)


def let_through(folder: pathlib.Path) -> None:
    """Let others as far as a folder: what keeps them out is to be the agent's doing."""
    for above in (folder, *folder.parents):
        if above.stat().st_mode & 0o005 != 0o005:
            above.chmod(above.stat().st_mode | 0o055)


def make_agent(folder: pathlib.Path, before: Sequence[str] = ()) -> AgentProcess:
    let_through(folder)
    log = folder / "access.log"
    log.touch(mode=0o600)
    now = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime())
    line = f'203.0.113.9 - alice [{now}] "GET /reset?code=5ecret HTTP/1.1" 200 5 "-" "-"\n'
    log.write_text(line * 20 + "what fits no format, 5ecret\n")
    sources = {"access": {"path": str(log), "format": "combined"}, "pushed": {"format": "json"}}
    return AgentProcess(folder, "web1", sources, [], before=before, archive={"path": str(folder / "archive")})


def test_cannot_read_what_agents_write_whatever_the_umask(tmp_path: pathlib.Path) -> None:
    agent = make_agent(tmp_path, WITHOUT_UMASK)
    with running([agent]), elf.connect(agent.url) as client:
        client.publish(text=JOB)
        client.ingest("pushed", [{"ts": "2026-01-01T00:00:00Z", "a": 1}])
        wait_until(lambda: [*(tmp_path / "archive").rglob("*.parquet")], "something is archived")
        wait_until(lambda: (agent.data / "rejected" / "access.log").exists(), "something is rejected")
        written = [path for folder in (agent.data, tmp_path / "archive") for path in (folder, *folder.rglob("*"))]
        assert {"state.db", "api.token", "access.log", "pushed.log"} <= {path.name for path in written}
        assert not [path for path in written if path.lstat().st_mode & 0o077], "others have no rights"
        assert as_nobody("cat", "/etc/passwd").returncode == 0, "what others may read is read so"
        for path in written:
            assert as_nobody("ls" if path.is_dir() else "cat", str(path)).returncode != 0, path


def test_cannot_ask_publish_stop_or_push(tmp_path: pathlib.Path) -> None:
    agent = make_agent(tmp_path)
    with running([agent]), elf.connect(agent.url) as client:
        client.publish(text=JOB)
        for method, path, body in (
            (
                "POST",
                "/v1/jobs",
                '{"definition": "name = \\"peek\\"\\nquery = \\"SELECT count(*) AS n FROM access\\""}',
            ),
            ("GET", "/v1/jobs", ""),
            ("GET", "/v1/jobs/ops/boss/result", ""),
            ("DELETE", "/v1/jobs/ops/boss?keep=0s", ""),
            ("POST", "/v1/ingest/pushed", '{"ts": "2026-01-01T00:00:00Z"}'),
            ("GET", "/metrics", ""),
            ("GET", "/v1/members", ""),
        ):
            told = as_nobody("/usr/bin/env", "python3", "-c", ASK, method, agent.url + path, body).stdout
            assert told.startswith("401 "), (method, path, told)
        probe = as_nobody("/usr/bin/env", "python3", "-c", ASK, "GET", f"{agent.url}/healthz", "").stdout
        assert probe == "200\n"
        assert [job.name for job in client.jobs()] == ["boss"]


def test_cannot_lead_writes_elsewhere(tmp_path: pathlib.Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("root's file\n")
    agent = make_agent(tmp_path)
    agent.data.chmod(0o777)
    made = as_nobody("ln", "-s", str(victim), str(agent.data / "state.mark"))
    assert made.returncode == 0, made.stderr
    agent.launch()
    assert agent.process is not None and agent.process.wait(60) == 78
    agent.process = None
    assert "is a link, and elf follows none in its data" in agent.messages()
    assert victim.read_text() == "root's file\n"


def test_a_folder_that_others_can_write_in_is_closed_to_them(tmp_path: pathlib.Path) -> None:
    agent = make_agent(tmp_path)
    agent.data.chmod(0o777)
    with running([agent]):
        assert as_nobody("touch", str(agent.data / "x")).returncode != 0
