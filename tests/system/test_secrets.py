"""What an agent is given to keep to itself is in nothing that it says: output, log, metrics, answers, refusals."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.request

from tests.ports import free_port
from tests.system.cluster import wait_until

ROUTES = (
    "/healthz", "/readyz", "/metrics", "/v1/jobs", "/v1/members", "/v1/audit", "/v1/jobs/shop/told",
    "/v1/jobs/shop/told/tree", "/v1/jobs/shop/told/explain", "/v1/jobs/shop/told/versions",
    "/v1/jobs/shop/told/result?window=latest",
)  # fmt: skip


def test_secrets_are_in_no_output(tmp_path: pathlib.Path) -> None:
    secrets = {
        "secret": "c0ffee01" * 8,
        "token": "marker-of-the-token-0123456789",
        "key": "marker-of-the-key-0123456789",
    }
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    for name, text in secrets.items():
        (credentials / name).write_text(text)
        (credentials / name).chmod(0o600)
    api, file = f"127.0.0.1:{free_port()}", tmp_path / "agent.toml"
    file.write_text(
        f'[agent]\ndata = "{tmp_path}/data"\nlog_level = "debug"\n[overlay]\nbind = "127.0.0.1:{free_port()}"\n'
        f'secret_file = "${{credential:secret}}"\n[api]\nbind = "{api}"\ntoken_file = "${{credential:token}}"\n'
        f'[sources.ev]\npath = "{tmp_path}/ev.log"\nformat = "json"\n[sources.ev.privacy]\nip = "hash"\n'
        'key_file = "${credential:key}"\n'
    )
    environment = {**os.environ, "CREDENTIALS_DIRECTORY": str(credentials)}
    said = list[str]()

    def elf(*arguments: str) -> int:
        done = subprocess.run(
            [sys.executable, "-m", "elf", *arguments], env=environment, capture_output=True, text=True, check=False
        )
        said.append(done.stdout + done.stderr)
        return done.returncode

    def ask(route: str, token: str = "", method: str = "GET") -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"http://{api}{route}", method=method, headers=headers)
        try:
            with urllib.request.urlopen(request) as answer:
                said.append(answer.read().decode())
                return int(answer.status)
        except urllib.error.HTTPError as error:
            said.append(error.read().decode())
            return error.code
        except OSError:
            return 0

    assert elf("validate", str(file)) == 0
    assert elf("agent", "-c", str(file), "--print-config") == 0
    log = (tmp_path / "log").open("w+")
    with (
        log,
        subprocess.Popen(
            [sys.executable, "-m", "elf", "agent", "-c", str(file)], env=environment, stdout=log, stderr=log
        ) as agent,
    ):
        try:
            wait_until(lambda: ask("/readyz") == 200, "the agent is ready")
            (tmp_path / "ev.log").write_text('{"ts":"2026-01-01T00:00:00Z","client_ip":"198.51.100.7"}\n')
            job = tmp_path / "told.toml"
            job.write_text('name = "told"\ncreator = "shop"\nquery = "SELECT count(*) AS n FROM ev"\n')
            told = ("--agent", f"http://{api}", "--token-file", str(credentials / "token"))
            assert elf("publish", str(job), *told) == 0
            for route in ROUTES:
                ask(route)
                assert ask(route, secrets["token"]) in (200, 404, 503), route
            # Files that are wrong now are spoken of, and not what is in them.
            (credentials / "secret").write_text(secrets["secret"][:-1])
            assert elf("reload", *told) == 78
            (credentials / "secret").write_text(secrets["secret"])
            (credentials / "key").write_text(secrets["key"][:12])
            file.write_text(file.read_text() + 'drop = ["a"]\n')
            assert elf("reload", *told) == 78
            assert ask("/readyz", secrets["token"]) == 200
            assert elf("validate", str(file)) == 78
        finally:
            agent.terminate()
            agent.wait()
        log.seek(0)
        said.append(log.read())
    parts = [text[:12] for text in secrets.values()]
    found = [match[0] for text in said for match in re.finditer(".*(" + "|".join(map(re.escape, parts)) + ").*", text)]
    assert found == [] and len(said) > 20
