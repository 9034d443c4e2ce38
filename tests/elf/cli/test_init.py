"""`elf init`: what it finds and writes, what it leaves alone, and that an agent reads the log on what it wrote."""

from __future__ import annotations

import datetime
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import elf
from elf.checking.validate import check_file, load_config
from elf.cli.app import app
from elf.installation import unit
from tests.ports import free_port
from tests.system.cluster import wait_until

FORMAT = '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent rt=$request_time'


class Server:
    """A web server's configuration and log, and folders for an agent."""

    def __init__(self, folder: Path) -> None:
        self.conf, self.log = folder / "nginx.conf", folder / "access.log"
        self.settings, self.data = folder / "etc", folder / "data"
        self.conf.write_text(f"http {{ log_format main '{FORMAT}'; access_log {self.log} main; }}")
        self.write(100)
        #: Of the format that nginx has unless it is told another: its lines tell it.
        self.plain = folder / "plain.log"
        line = '10.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 5 "-" "curl/8.1"\n'
        self.plain.write_text(line * 20)

    def write(self, count: int) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
        lines = [f'10.0.0.{i} - - [{now}] "GET /p{i % 3} HTTP/1.1" 200 {i} rt=0.001\n' for i in range(count)]
        with self.log.open("a") as log:
            log.writelines(lines)

    def init(self, *arguments: str | Path, stdin: str | None = None) -> Result:
        words = ["init", "--to", self.settings, "--data", self.data, *arguments]
        return CliRunner().invoke(app, [*map(str, words)], input=stdin)

    @property
    def file(self) -> Path:
        return self.settings / "agent.toml"

    def modes(self) -> dict[str, int]:
        return {each.name: stat.S_IMODE(each.stat().st_mode) for each in self.settings.iterdir()}

    def texts(self) -> dict[str, str]:
        return {each.name: each.read_text() for each in self.settings.iterdir()}


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_settings_of_what_nginx_logs_are_written_once(server: Server) -> None:
    made = server.init("--server-config", server.conf, "--yes")
    assert made.exit_code == 0, made.stderr
    assert "100 of its first 100 lines fit" in made.stderr
    assert f"elf agent --config {server.file}" in made.stderr
    assert server.modes() == {"agent.toml": 0o640, "secret": 0o600, "first.sql": 0o640}
    config = load_config(server.file)
    assert (config.sources["access"].path, config.sources["access"].format) == (str(server.log), FORMAT)
    assert check_file(server.settings / "first.sql").findings == ()
    before = server.texts()
    again = server.init("--source", server.log, "--yes")
    assert again.exit_code == 0 and "stays as it is" in again.stderr
    assert server.texts() == before


def test_an_agent_started_on_it_answers(server: Server) -> None:
    api = f"127.0.0.1:{free_port()}"
    bind = ["--bind", f"127.0.0.1:{free_port()}", "--api", api]
    assert server.init("--server-config", server.conf, *bind, "--yes").exit_code == 0
    validated = CliRunner().invoke(app, ["validate", str(server.file)])
    assert validated.exit_code == 0, validated.stderr
    agent = subprocess.Popen([sys.executable, "-m", "elf", "agent", "--config", server.file], stderr=subprocess.DEVNULL)
    try:
        with elf.connect(f"http://{api}", timeout=60) as client:
            job = client.publish(server.settings / "first.sql")

            def is_counted() -> bool:
                server.write(3)
                return bool(client.query(job.key).rows)

            wait_until(is_counted, "rows of the log")
            assert {row["path"] for row in client.query(job.key).rows} <= {"/p0", "/p1", "/p2"}
        refused = server.init("--remove", "--yes")
        assert refused.exit_code == 78 and "an agent runs with" in refused.stderr
    finally:
        agent.terminate()
        agent.wait()
    removed = server.init("--remove", "--yes")
    assert removed.exit_code == 0, removed.stderr
    assert not server.settings.exists() and not server.data.exists()
    assert server.log.exists() and server.conf.exists()


def test_lines_are_believed_more_than_the_configuration(server: Server) -> None:
    server.conf.write_text(f"http {{ access_log {server.log}; }}")
    server.log.write_text('{"ts":"2026-01-01T00:00:00Z","a":1}\n' * 20)
    made = server.init("--server-config", server.conf, "--yes")
    assert "only 0 of its first 20 lines fit that; its lines are json: 20 of 20" in made.stderr
    assert load_config(server.file).sources["access"].format == "json"


def test_named_logs(server: Server) -> None:
    assert server.init("--source", f"shop={server.log}", "--format", FORMAT, "--yes").exit_code == 0
    assert load_config(server.file).sources["shop"].format == FORMAT


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["--source", "{odd}"], 2, "its lines have no format that is known"),
        (["--source", "{log}", "--format", "combined"], 2, "only 0 of its first 100 lines fit that"),
        (["--format", "combined"], 2, "--format is of --source lines"),
        (["--source", "a=", "--source", "b=x"], 2, "write NAME=PATH"),
        (["--source", "{plain}", "--source", "access={plain}"], 2, "the same name"),
        (["--source", "Shop={plain}"], 78, "'Shop' cannot be a source"),
        (["--source", "{plain}", "--join", "10.0.0.1:4250"], 78, "have a secret, which this one needs"),
        (["--source", "{plain}", "--join", "nobody", "--secret", "{secret}"], 78, "is not an address"),
        (["--source", "{plain}", "--secret", "{plain}"], 78, "other users of this machine can read the cluster secret"),
        (["--source", "{plain}", "--api", "x"], 78, "is not an address"),
        (["--server-config", "{gone}"], 78, "No such file"),
        (["--server-config", "{log}"], 78, "no log of a web server was found"),
        (["--remove"], 78, "nothing is removed"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_written(
    server: Server, tmp_path: Path, arguments: list[str], code: int, why: str
) -> None:
    (tmp_path / "odd").write_text("nothing known\n" * 20)
    (tmp_path / "key").write_text("5" * 64)
    (tmp_path / "key").chmod(0o600)
    places = {
        "log": server.log,
        "plain": server.plain,
        "odd": tmp_path / "odd",
        "secret": tmp_path / "key",
        "gone": tmp_path / "gone",
    }
    server.plain.chmod(0o644)
    refused = server.init(*(each.format(**places) for each in arguments), "--yes")
    assert (refused.exit_code, why in refused.stderr) == (code, True), refused.stderr
    assert not server.settings.exists() or not list(server.settings.iterdir())


def test_who_joins_has_the_secret_of_the_others_and_an_address_they_reach(server: Server, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("5" * 64 + "\n")
    key.chmod(0o600)
    made = server.init("--source", server.plain, "--join", "127.0.0.1:9999", "--secret", key, "--yes")
    assert made.exit_code == 0, made.stderr
    config = load_config(server.file)
    assert (server.settings / "secret").read_text() == key.read_text()
    assert (config.overlay.join, config.overlay.bind) == (["127.0.0.1:9999"], "127.0.0.1:4250")


def test_an_open_api_has_a_token(server: Server) -> None:
    assert server.init("--source", server.plain, "--api", "0.0.0.0:4260", "--yes").exit_code == 0
    assert server.modes()["token"] == 0o600
    assert load_config(server.file).api.token_file == str(server.settings / "token")


def test_nothing_is_done_without_a_yes(server: Server) -> None:
    refused = server.init("--source", server.plain, stdin="n\n")
    assert refused.exit_code == 130 and not server.settings.exists()
    assert server.init("--source", server.plain, stdin="y\n").exit_code == 0


def test_what_is_there_stays_whoever_put_it_there(server: Server, tmp_path: Path) -> None:
    server.settings.mkdir()
    (tmp_path / "elsewhere").write_text("kept")
    (server.settings / "secret").symlink_to(tmp_path / "elsewhere")
    made = server.init("--source", server.plain, "--yes")
    assert made.exit_code == 0 and (tmp_path / "elsewhere").read_text() == "kept"
    assert "secret is there already" in made.stderr


def test_two_at_once_write_one_installation(server: Server) -> None:
    words = [sys.executable, "-m", "elf", "init", "--to", server.settings, "--data", server.data]
    command = [*map(str, words), "--source", str(server.plain), "--yes"]
    both = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [each.wait() for each in both] == [0, 0]
    assert check_file(server.file).findings == ()
    assert set(server.modes()) == {"agent.toml", "secret", "first.sql"}


def test_a_folder_with_something_else_in_it_is_left(server: Server) -> None:
    server.init("--source", server.plain, "--yes")
    server.data.mkdir()
    (server.data / "thesis.tex").touch()
    removed = server.init("--remove", "--yes")
    assert "which is no agent's" in removed.stderr and (server.data / "thesis.tex").exists()
    assert not server.settings.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has services")
def test_a_service_is_written_and_begun_and_taken_away(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, ...]] = []
    monkeypatch.setattr(unit, "FOLDER", tmp_path)
    monkeypatch.setattr(unit, "PACKAGED", ())
    monkeypatch.setattr(unit, "RUNNING", tmp_path)
    monkeypatch.setattr(unit, "run", lambda *command: done.append(command))
    monkeypatch.setattr(unit, "program", lambda: "/opt/elf/bin/elf")
    made = server.init("--source", server.plain, "--systemd", "--user", "nobody", "--yes")
    assert made.exit_code == 0, made.stderr
    file = tmp_path / "elf-agent.service"
    assert f"ExecStart=/opt/elf/bin/elf agent --config {server.file}\n" in file.read_text()
    assert done == [("systemctl", "daemon-reload"), ("systemctl", "enable", "--now", "elf-agent.service")]
    assert f"ReadWritePaths={server.data}\n" in file.read_text()
    assert (server.data.stat().st_uid, stat.S_IMODE(server.data.stat().st_mode)) == (65534, 0o700)
    owner = (server.settings / "secret").stat()
    assert (owner.st_uid, server.file.stat().st_uid, server.file.stat().st_gid) == (65534, 0, owner.st_gid)
    assert unit.own_user() == "", "it was there before"
    again = server.init("--systemd", "--user", "nobody", "--yes")
    assert again.exit_code == 0 and "elf-agent.service is there already" in again.stderr
    done.clear()
    assert server.init("--remove", "--yes").exit_code == 0
    assert not file.exists() and done[0] == ("systemctl", "disable", "--now", "elf-agent.service")


def test_only_root_has_services(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "run it as root" in server.init("--source", server.plain, "--systemd", "--yes").stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has services")
def test_a_user_that_was_made_for_a_service_goes_with_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, ...]] = []
    monkeypatch.setattr(unit, "FOLDER", tmp_path)
    monkeypatch.setattr(unit, "PACKAGED", ())
    monkeypatch.setattr(unit, "RUNNING", tmp_path / "gone")
    monkeypatch.setattr(unit, "run", lambda *command: done.append(command))
    monkeypatch.setattr(unit, "program", lambda: "/opt/elf/bin/elf")
    made = server.init("--source", server.plain, "--systemd", "--user", "elf-of-a-test", "--yes")
    assert made.exit_code == 0 and "systemd does not run this machine" in made.stderr, made.stderr
    assert (done[0][0], done[0][-1], unit.own_user()) == ("useradd", "elf-of-a-test", "elf-of-a-test")
    assert server.init("--remove", "--yes").exit_code == 0
    assert done[-1] == ("userdel", "elf-of-a-test")
