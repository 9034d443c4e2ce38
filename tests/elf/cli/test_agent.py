"""The operator's commands: agent (up to where it runs), validate."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from elf.agents.settings.config import AgentConfig, OverlaySection, SourceConfig
from elf.checking.validate import check_config
from elf.cli.app import app
from elf.cli.effective import render_changes, render_toml


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[AgentConfig]:
    """Catch the configuration an agent would run with."""
    configs: list[AgentConfig] = []

    async def run(config: AgentConfig, ready: Callable[[str], None] | None = None, *_: object) -> None:
        configs.append(config)
        if ready is not None:
            ready("http://127.0.0.1:4260", "s3cret-0123")

    monkeypatch.setattr("elf.agents.runtime.run", run)
    return configs


def test_an_agent_from_options_alone(started: list[AgentConfig], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    arguments = "agent --source clicks=/var/log/c.log --source pushed --format json --time at --join 10.0.0.1:4250"
    arguments += (
        f" --join 10.0.0.2:4250 --bind 10.0.0.3:4250 --api 127.0.0.1:0 --data d --name web1 --secret-file {secret}"
    )
    arguments += " --tls-cert-file c.pem --tls-key-file k.pem --tls-ca-file ca.pem"
    result = run(*arguments.split())
    assert result.exit_code == 0, result.stderr
    (config,) = started
    assert config.sources["clicks"] == SourceConfig(path="/var/log/c.log", format="json", time="at")
    assert config.sources["pushed"].path == ""
    assert config.overlay == OverlaySection(
        bind="10.0.0.3:4250",
        join=["10.0.0.1:4250", "10.0.0.2:4250"],
        secret_file=str(secret),
        tls_cert_file="c.pem",
        tls_key_file="k.pem",
        tls_ca_file="ca.pem",
    )
    assert (config.agent.name, config.agent.data, config.api.bind) == ("web1", "d", "127.0.0.1:0")
    assert result.stdout == ""
    assert "ready, API at http://127.0.0.1:4260" in result.stderr
    shown = result.stderr.partition("ready,")[0]
    assert check_config(shown, "shown")[0] == config


@pytest.mark.parametrize("terminal", [True, False])
def test_a_new_token_is_told_to_a_person_and_to_no_log(
    started: list[AgentConfig], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr("elf.cli.agent.is_watched", lambda: terminal)
    said = run("agent", "--source", "pushed").stderr
    assert ("ready, API at http://127.0.0.1:4260/#token=s3cret-0123" in said) == terminal
    assert ("s3cret" in said) == terminal


def test_an_agent_says_in_few_lines_what_was_set_and_prints_all_on_request(
    started: list[AgentConfig],
) -> None:
    shown = run("agent", "--source", "access=a.log", "--format", "combined", "--source", "pushed").stderr
    assert shown.splitlines() == [
        "# what is not the default; --print-config prints all settings",
        "[sources.access]",
        'path = "a.log"',
        'format = "combined"',
        "",
        "[sources.pushed]",
        'format = "combined"',
        "ready, API at http://127.0.0.1:4260",
    ]
    arguments = ["agent", "--source", "access=a.log", "--format", "combined", "--source", "pushed"]
    printed = run(*arguments, "--print-config")
    assert (printed.exit_code, printed.stderr, len(started)) == (0, "", 1)
    assert check_config(printed.stdout, "printed")[0] == started[0]
    assert "request_bytes_max = 16777216" in printed.stdout
    key = "A" * 43 + "="
    text = f'agent.name = "w"\n[functions.trusted]\nshop = "{key}"\n'
    text += '[sources.a]\ncolumns = { n = "INT" }\nprivacy.drop = ["n"]\n'
    config = check_config(text, "file")[0]
    assert config is not None and check_config(render_changes(config), "changes")[0] == config


def test_options_change_the_file(started: list[AgentConfig], tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('[agent]\nname = "a"\ndata = "kept"\n[sources.clicks]\npath = "c.log"\n')
    assert run("agent", "-c", file, "--name", "b", "--source", "more=m.log").exit_code == 0
    assert (started[0].agent.name, started[0].agent.data) == ("b", "kept")
    assert set(started[0].sources) == {"clicks", "more"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["agent"], "--config FILE, --source"),
        (["agent", "--source", "a=x", "--source", "a=y"], "twice"),
        (["agent", "--source", "a="], "names no file; for a source that is only pushed to write --source a"),
        (["agent", "--source", "a=x", "--bind", "0.0.0.0:1"], "elf keygen"),
        (["agent", "--source", "a=x", "--join", "web1"], "HOST:PORT"),
        (["agent", "--source", "a=x", "--bind", "nonsense"], "overlay.bind = 'nonsense' is not an address"),
        (["agent", "--source", "a=x", "--api", "nonsense"], "api.bind = 'nonsense' is not an address; write HOST:PORT"),
        (
            ["agent", "--source", "a=x", "--api", "h:65536"],
            "api.bind = 'h:65536' is not an address: ports are 0 to 65535",
        ),
        (["agent", "--source", "a=x", "--bind", "web", "--secret-file", "s"], "overlay.bind = 'web' is not an address"),
        (["agent", "--source", "A B=x"], "cannot be a source"),
        (["agent", "--source", "a=x", "--format", "jsn"], "did you mean 'json'"),
        (["agent", "--config", "/no/such.toml"], "No such file"),
    ],
)
def test_wrong_settings_end_before_anything_starts(started: list[AgentConfig], arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, said in result.stderr) == (78, True), result.stderr
    assert not started


def test_a_wrong_file_is_explained(started: list[AgentConfig], tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('[agnet]\nname = "a"\n')
    result = run("agent", "--config", file)
    assert (result.exit_code, result.stderr.count(f"{file}:1:2: ")) == (78, 1)
    assert not started


@pytest.mark.parametrize(("ready", "code"), [(False, 78), (True, 1)])
def test_what_keeps_an_agent_from_starting_is_a_setting(
    monkeypatch: pytest.MonkeyPatch, ready: bool, code: int
) -> None:
    async def run_agent(config: AgentConfig, announce: Callable[[str], None], *_: object) -> None:
        if ready:
            announce("http://127.0.0.1:4260")
        raise PermissionError(13, "Permission denied", "/var/lib/elf")

    monkeypatch.setattr("elf.agents.runtime.run", run_agent)
    result = run("agent", "--source", "a=x")
    assert result.exit_code == code
    assert ("cannot start: /var/lib/elf: Permission denied" in result.stderr) == (not ready)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (file, content)
        for file in ("config", "secret", "token", "certificate")
        for content in (b"", b"\xff\x00\x8b" * 30, b"[agent", b"0123\n")
        if file != "config" or content  # an empty configuration is one
    ],
)
def test_a_damaged_file_of_the_operators_is_named(tmp_path: Path, file: str, content: bytes) -> None:
    damaged = tmp_path / f"the-{file}"
    damaged.write_bytes(content)
    damaged.chmod(0o600)
    arguments = ["--source", "a=a.log", "--bind", "127.0.0.1:0", "--api", "127.0.0.1:0", "--data", tmp_path / "data"]
    match file:
        case "secret":
            arguments += ["--secret-file", damaged]
        case "certificate":
            arguments += [part for option in ("cert", "key", "ca") for part in (f"--tls-{option}-file", damaged)]
        case "token":
            (tmp_path / "elf.toml").write_text(f"[api]\ntoken_file = '{damaged}'\n")
            arguments += ["--config", tmp_path / "elf.toml"]
        case _:
            arguments += ["--config", damaged]
    result = run("agent", *arguments)
    assert result.exit_code == 78
    assert f"the-{file}" in result.stderr.splitlines()[-1]


def test_validate(tmp_path: Path) -> None:
    config, job = tmp_path / "agent.toml", tmp_path / "job.toml"
    config.write_text("[agent]\nnam = 1\n")
    result = run("validate", config)
    assert (result.exit_code, f"{config}:2:1: [agent] has no setting 'nam'; did you mean 'name'?" in result.stderr) == (
        78,
        True,
    )
    config.write_text("[agent]\n")
    assert run("validate", config).exit_code == 0
    job.write_text('name = "a"\nquery = "SELECT FROM"\n')
    result = run("validate", job)
    assert (result.exit_code, f"{job}:2:" in result.stderr) == (2, True)
    job.write_text("name = top\ncreator = shop\n")
    result = run("validate", job)
    assert (result.exit_code, f"{job}:1:8: not TOML" in result.stderr) == (2, True)
    assert run("validate", tmp_path / "none.sql").exit_code == 2
    # Nothing tells that these were to be jobs.
    assert run("validate", tmp_path / "none").exit_code == 78
    config.write_text("hello\n")
    assert run("validate", config).exit_code == 78
    config.write_text("[sources.a.columns]\nsource = x\n")
    assert run("validate", config).exit_code == 78


@pytest.mark.parametrize(
    "config",
    [
        AgentConfig(),
        AgentConfig(
            sources={
                "a.b": SourceConfig(format='$remote_addr "$request" \\ é', columns={"x y": "INT", "z": "STRING"}),
                "plain": SourceConfig(),
            }
        ),
    ],
)
def test_the_effective_configuration_reads_back_equal(config: AgentConfig) -> None:
    assert msgspec.convert(tomllib.loads(render_toml(config)), AgentConfig) == config


def test_validate_looks_at_what_a_configuration_names_unless_it_is_for_another_machine(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(f'[agent]\ndata = "{tmp_path}/d"\n[overlay]\nsecret_file = "{tmp_path}/none"\n')
    result = run("validate", file)
    assert result.exit_code == 78
    assert f"{file}:4:15: secret_file = '{tmp_path}/none': cannot read" in result.stderr
    assert "an agent of this user would not start with it, or lack events" in result.stderr
    result = run("validate", file, "--elsewhere")
    assert (result.exit_code, result.stderr) == (0, f"{file}: this configuration is valid\n")
    file.write_text(f'[agent]\ndata = "{tmp_path}/d"\n[sources.a]\npath = "{tmp_path}/x/a.log"\n')
    result = run("validate", file)
    assert result.exit_code == 0
    assert f"there is no folder {tmp_path}/x" in result.stderr and "this configuration is valid" in result.stderr
