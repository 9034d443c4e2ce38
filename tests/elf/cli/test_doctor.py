"""`elf doctor`: exit codes, its two ways to print, and a bundle that says nothing of anybody."""

from __future__ import annotations

import io
import json
import stat
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from elf.cli.app import app
from elf.doctor.answers import read_metrics
from tests.agents.http.fake_service import FakeService, make_result
from tests.elf.fake_agent import Agent

MARK = "pl4nted"


def doctor(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)])


def test_nothing_and_something_is_wrong(agent: Agent) -> None:
    healthy = doctor("--agent", agent.url)
    assert (healthy.exit_code, healthy.stdout) == (0, "") and "nothing is wrong" in healthy.stderr
    agent.service.reasons = ["source access: \x1b[2JPermission denied"]
    ill = doctor("--agent", agent.url)
    assert ill.exit_code == 1 and "1 finding" in ill.stderr
    assert ill.stdout.splitlines()[0] == "log: source access: \\x1b[2JPermission denied"
    assert [line.split()[0] for line in ill.stdout.splitlines()] == ["log:", "why:", "mend:"]
    (line,) = doctor("--agent", agent.url, "--json").stdout.splitlines()
    assert set(json.loads(line)) == {"check", "what", "why", "mend"}


def test_nobody_answers(agent: Agent, tmp_path: Path) -> None:
    agent.stop()
    silent = doctor("--agent", agent.url)
    assert silent.exit_code == 69 and silent.stdout.startswith("agent: no agent answers")
    assert doctor(tmp_path / "gone.toml").exit_code == 1
    assert doctor("--agent", "nothing").exit_code == 2


def test_a_stranger_is_told_how_to_ask(guarded_agent: Agent, tmp_path: Path) -> None:
    refused = doctor("--agent", guarded_agent.url)
    assert refused.exit_code == 1 and "lets this user ask nothing" in refused.stdout
    (tmp_path / "token").write_text("s3cret")
    assert doctor("--agent", guarded_agent.url, "--token-file", tmp_path / "token").exit_code == 0
    assert doctor("--agent", f"{guarded_agent.url}/#token=s3cret").exit_code == 0


def test_what_answers_may_be_anything(monkeypatch: pytest.MonkeyPatch, agent: Agent) -> None:
    monkeypatch.setattr(FakeService, "health", lambda self: {"status": "a web site"})
    assert "no agent of elf" in doctor("--agent", agent.url).stdout


def settings(folder: Path) -> str:
    """Settings with a mark in each text that can be one's own."""
    for name in ("secret", "token", "key"):
        (folder / f"{name}-{MARK}").write_text(f"{MARK}{name}" * 4)
        (folder / f"{name}-{MARK}").chmod(0o600)
    log = folder / f"{MARK}.log"
    log.write_text('{"at":"2026-01-01T00:00:00Z","user":"' + MARK + '"}\n' * 50)
    return f"""
[agent]
name = "{MARK}"
data = "{folder}/{MARK}"
[overlay]
bind = "127.0.0.1:4{"250"}"
join = ["{MARK}.example.com:4250", "10.11.12.13:4250"]
secret_file = "{folder}/secret-{MARK}"
[api]
bind = "127.0.0.1:1"
token_file = "{folder}/token-{MARK}"
operators = {{ {MARK} = "{"A" * 43}=" }}
[archive]
copy_to = "s3://{MARK}/{MARK}"
[functions]
trusted = {{ {MARK} = "{"A" * 43}=" }}
[sources.{MARK}]
path = "{log}"
format = "json"
time = "{MARK}"
time_zone = "Europe/Berlin"
columns = {{ {MARK} = "STRING" }}
[sources.{MARK}.privacy]
ip = "hash"
key_file = "{folder}/key-{MARK}"
drop = ["{MARK}"]
secret_keys = ["{MARK}"]
[sources.pasted]
path = "{log}"
format = '{MARK} $remote_addr [$time_local] "$request"'
"""


def test_a_bundle_says_nothing_of_anybody(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, bundle = tmp_path / "agent.toml", tmp_path / "ill.tar.gz"
    file.write_text(settings(tmp_path))
    agent.service.reasons = [f"source {MARK}: '10.11.12.13 {MARK}' fits nothing", f"no link with {MARK}: x"]
    agent.service.add(MARK, MARK, f"SELECT {MARK}")["trouble"] = MARK
    known = {**make_result()["completeness"], "missing": [MARK], "semantics": MARK, "status": MARK}
    agent.service.result_of[MARK, MARK] = make_result(f"{MARK}/{MARK}", rows=[{"x": MARK}], completeness=known)
    metrics = f'elf_lines_read_total{{source="{MARK}"}} 7.0\nelf_master{{job="{MARK}/x"}} NaN\n'
    monkeypatch.setattr(FakeService, "metrics", lambda self: metrics.encode())
    printed = doctor(file, "--agent", agent.url, "--bundle", bundle)
    assert printed.exit_code == 1, printed.output
    for secret in (f"{MARK}secret", f"{MARK}token", f"{MARK}key"):
        assert secret not in printed.output
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    with tarfile.open(fileobj=io.BytesIO(bundle.read_bytes())) as packed:
        texts = {each.name: packed.extractfile(each).read().decode() for each in packed}  # type: ignore[union-attr]
    assert set(texts) == {
        f"elf-doctor/{name}.json" for name in ("findings", "versions", "settings", "agent", "metrics")
    }
    everything = "".join(texts.values())
    for planted in (MARK, "10.11.12.13", "127.0.0.1", str(tmp_path), "SELECT", "AAAA", "tetris"):
        assert planted not in everything, planted
    told = json.loads(texts["elf-doctor/settings.json"])
    assert told["sources"]["source-1"]["time_zone"] == "Europe/Berlin"
    assert told["sources"]["source-2"]["format"] == "(pasted)"
    assert ["elf_lines_read_total", {"source": "source-1"}, 7.0] in json.loads(texts["elf-doctor/metrics.json"])
    again = doctor(file, "--agent", agent.url, "--bundle", bundle)
    assert again.exit_code == 2 and "is not overwritten" in again.stderr


def test_metrics_are_read_and_odd_lines_left_out() -> None:
    text = '# HELP x\nx 1\ny{a="b\\"c",d="e"} 2.5e3\nz{a="} 1\nw nothing\n'
    assert read_metrics(text) == {("x", ()): 1.0, ("y", (("a", 'b\\"c'), ("d", "e"))): 2500.0, ("z", ()): 1.0}
