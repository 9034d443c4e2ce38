"""What a configuration names on this machine: what keeps an agent from starting is told from what is worth a look."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from pathlib import Path

import pytest

from elf.checking.environment import Surroundings, look_around
from elf.checking.validate import check_config
from tests.overlay.certified import Issuer

SECRET = "5" * 64 + "\n"


def looked(text: str) -> Surroundings:
    config, findings = check_config(text, "agent.toml")
    assert config is not None, findings
    return look_around(config, text, "agent.toml")


def said(found: Surroundings) -> tuple[list[str], list[str]]:
    return [str(each) for each in found.obstacles], [str(each) for each in found.notes]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("secret", SECRET), ("token", "t" * 32), ("access.log", "")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    (tmp_path / "data").mkdir(mode=0o700)
    return tmp_path


def test_nothing_is_said_where_all_is_there(folder: Path) -> None:
    text = f"""agent.data = "{folder}/data"
overlay.secret_file = "{folder}/secret"
api.token_file = "{folder}/token"
archive.path = "{folder}/archive/below"
sources.a.path = "{folder}/access.log"
sources.b.path = "{folder}/*.log"
sources.pushed.format = "json"
"""
    assert said(looked(text)) == ([], [])
    assert not (folder / "archive").exists(), "it looks, and makes nothing"


def test_a_build_without_kernels_is_worth_a_note(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elf.checking.environment.built", lambda: None)
    text = f'agent.data = "{folder}/data"\nsources.a.path = "{folder}/access.log"\n'
    obstacles, notes = said(looked(text))
    assert obstacles == [] and len(notes) == 1 and "kernels: none, so lines are read at a twentieth" in notes[0]
    assert said(looked(f'agent.data = "{folder}/data"\n')) == ([], []), "it reads no lines"


def test_each_obstacle_has_its_place(folder: Path) -> None:
    (folder / "secret").chmod(0o644)
    (folder / "token").write_text("short")
    (folder / "file").write_text("")
    text = f"""[agent]
data = "{folder}/file/data"
[overlay]
secret_file = "{folder}/secret"
tls_cert_file = "{folder}/none.pem"
tls_key_file = "{folder}/none.pem"
tls_ca_file = "{folder}/none.pem"
[api]
token_file = "{folder}/token"
[archive]
path = "{folder}/file"
[sources.a.privacy]
ip = "hash"
key_file = "{folder}/no-key"
"""
    obstacles, notes = said(looked(text))
    assert notes == []
    begins = [line.split(": ", 1) for line in obstacles]
    assert [place for place, _ in begins] == [
        f"agent.toml:{place}" for place in ("2:8", "11:8", "4:15", "5:17", "9:14", "14:12")
    ]
    for part, (_, message) in zip(
        (
            f"agent.data = '{folder}/file/data' cannot be used: {folder}/file is no folder",
            f"archive.path = '{folder}/file' cannot be used: {folder}/file is no folder",
            f"run `chmod 600 {folder}/secret`",
            "none.pem",
            "does not hold at least 16 ASCII characters",
            "no-key' cannot be read: No such file or directory",
        ),
        begins,
        strict=True,
    ):
        assert part in message


def test_what_others_can_read_is_no_token(folder: Path) -> None:
    (folder / "token").chmod(0o644)
    obstacles, notes = said(looked(f'[api]\ntoken_file = "{folder}/token"\n'))
    assert notes == [] and "other users of this machine can read it; run `chmod 600" in obstacles[0]


def test_what_may_come_later_is_a_note(folder: Path) -> None:
    (folder / "data").chmod(0o755)
    text = f"""[agent]
data = "{folder}/data"
[sources.a]
path = "{folder}/nginx/access.log"
[sources.b]
path = "{folder}/more*.log"
[sources.c]
path = "{folder}/data"
"""
    assert said(looked(text)) == (
        [],
        [
            f"agent.toml:4:8: sources.a.path = '{folder}/nginx/access.log': there is no folder {folder}/nginx",
            f"agent.toml:6:8: sources.b.path = '{folder}/more*.log': no file matches it yet",
            f"agent.toml:8:8: sources.c.path: {folder}/data can be no log: Is a directory",
        ],
    )


def test_a_log_that_no_agent_can_read_is_a_note(folder: Path) -> None:
    (folder / "logs.zip").write_bytes(b"PK\x03\x04 and more")
    text = f'agent.data = "{folder}/data"\nsources.a.path = "{folder}/*log*"\n'
    note = f"sources.a.path: {folder}/logs.zip cannot be read: a zip archive, not a log: unpack it with unzip"
    assert said(looked(text)) == ([], [f"agent.toml:2:18: {note}"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_a_user_may_not_touch_is_told_to_that_user(folder: Path) -> None:
    (folder / "agent.toml").write_text(f"""agent.data = "{folder}/data"
sources.a.path = "{folder}/access.log"
sources.b.path = "{folder}/data/access.log"
""")
    program = f"""
import os, sys
from elf.checking.environment import look_around
from elf.checking.validate import load_config
text = open({str(folder / "agent.toml")!r}).read()
config = load_config({str(folder / "agent.toml")!r})
os.chdir("/")
for path in {[str(each) for each in folder.parents][:3]}:
    os.chmod(path, 0o755)
os.chmod({str(folder)!r}, 0o755)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
found = look_around(config, text, "agent.toml")
print(*found.obstacles, *found.notes, sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"agent.toml:1:14: agent.data = '{folder}/data' cannot be used: this user may not write into {folder}/data",
        f"agent.toml:2:18: sources.a.path: this user may not read {folder}/access.log; see the modes and groups of it "
        f"and {folder}",
        f"agent.toml:3:18: sources.b.path = '{folder}/data/access.log': this user may not look into {folder}/data",
    ]


def test_lines_of_another_format_are_said_with_what_they_look_like(folder: Path) -> None:
    line = '192.0.2.1 - - [26/Nov/2026:09:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "-"\n'
    (folder / "access.log").write_text(f"shop.example:443 {line}" * 3)
    (folder / "objects.log").write_text('{"at":"2026-11-26T09:00:00Z","time":1795683600}\n')
    (folder / "words.log").write_text("so it goes\n")
    text = f"""agent.data = "{folder}/data"
[sources.a]
path = "{folder}/access.log"
format = "combined"
[sources.b]
path = "{folder}/objects.log"
format = "json"
[sources.c]
path = "{folder}/objects.log"
[sources.d]
path = "{folder}/words.log"
"""
    obstacles, _ = said(looked(text))
    assert [each.partition(": ")[2] for each in obstacles] == [
        "sources.a.format: 0 of the first 3 lines fit 'combined'; 3 would with format = \"vhost_combined\"",
        "sources.b.format: 0 of the first 1 lines fit 'json'; 1 would with time = \"time\"",
        "sources.d: its lines are of no format that has a name; `elf sample FILE` shows more",
    ]
    text = text.replace("words", "objects")
    assert said(looked(text.replace('"combined"', '"vhost_combined"').replace("objects", "none")))[0] == []


def test_off_loopback_a_certificate_without_a_port_needs_the_secret(tmp_path: Path) -> None:
    issuer = Issuer(tmp_path / "ca", datetime.datetime.now(datetime.UTC))

    def obstacles(*names: str) -> list[str]:
        files = "".join(f'{name} = "{file}"\n' for name, file in issuer.settings(*names).items())
        text = f'[overlay]\nbind = "10.0.0.7:4250"\n{files}'
        return said(looked(text))[0]

    assert obstacles("10.0.0.7:4250") == []
    assert "elf certgen --address 10.0.0.7:4250" in obstacles("10.0.0.7")[0]
    assert "not valid for 10.0.0.7:4250" in obstacles("10.0.0.7:4251")[0]
