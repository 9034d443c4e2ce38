"""Twelve faults, planted: each is named, with why it matters and the command that mends it (and nothing else is)."""

from __future__ import annotations

import datetime
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import elf
from elf.agents.host.neighbours import Neighbours
from elf.doctor.answers import Answers
from elf.doctor.examination import examine
from elf.doctor.finding import Check, Finding
from elf.doctor.running import look_at_answers
from elf.overlay.dht import auth
from elf.overlay.errors import UnsupportedVersionError
from elf.overlay.links import certificates
from elf.overlay.links.offer import Offer, agreed
from tests.ports import free_port
from tests.system.cluster import AgentProcess, running, wait_until

COMBINED = '10.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 5 "-" "curl/8.1"\n'


class Place:
    """An agent's settings, log and data folder, all of them right."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file, self.log, self.data = (folder, folder / "agent.toml", folder / "a.log", folder / "data")
        self.overlay, self.api = free_port(), free_port()
        self.log.write_text(COMBINED * 2_000)
        self.log.chmod(0o644)  # whatever the umask
        self.data.mkdir(mode=0o700)
        self.write()

    def write(self, overlay: str = "", archive: str = "", format: str = "combined") -> None:
        self.file.write_text(
            f'[agent]\ndata = "{self.data}"\n[overlay]\nbind = "127.0.0.1:{self.overlay}"\n{overlay}\n'
            f'[api]\nbind = "127.0.0.1:{self.api}"\n[archive]\n{archive}\n'
            f'[sources.access]\npath = "{self.log}"\nformat = "{format}"\n'
        )

    def findings(self) -> list[Finding]:
        """All findings but that no agent runs on it."""
        found = examine(self.file, None, None).findings
        assert [each.check for each in found].count(Check.AGENT) == 1
        return [each for each in found if each.check is not Check.AGENT]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def only(findings: list[Finding], check: Check) -> Finding:
    (finding,) = findings
    assert finding.check is check
    assert finding.what and finding.why and finding.mend and "\n" not in finding.mend
    return finding


def asked(**said: object) -> list[Finding]:
    """What is found by what an agent says."""
    answers = Answers("http://127.0.0.1:4260", {"status": "alive"})
    for name, value in said.items():
        setattr(answers, name, value)
    return list(look_at_answers(answers, {"secret": "/etc/elf/secret", "data": "/d", "log:access": "/l/a.log"}))


def test_nothing_is_wrong(place: Place) -> None:
    assert place.findings() == []
    assert asked(metrics={("process_open_fds", ()): 50.0, ("process_max_fds", ()): 65_536.0}) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_an_unreadable_log() -> None:
    # Folders of tests are closed to others.
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        place.folder.chmod(0o755)
        (place.data / "state.db").touch()
        os.chown(place.data / "state.db", 65534, 65534)
        place.log.chmod(0o640)
        os.chown(place.log, 0, 4)  # of Debian's group adm
        finding = only(place.findings(), Check.LOG)
        assert "user nobody may not read" in finding.what and str(place.log) in finding.what
        assert finding.mend.startswith("usermod --append --groups adm nobody")
        place.log.chmod(0o600)
        assert f"setfacl --modify u:nobody:r {place.log}" in only(place.findings(), Check.LOG).mend
        place.folder.chmod(0o700)
        assert f"for {place.folder} is closed to it" in only(place.findings(), Check.LOG).what


def test_a_log_that_nobody_writes(place: Place) -> None:
    place.log.unlink()
    assert "no file is at" in only(place.findings(), Check.LOG).what


def test_a_wrong_format(place: Place) -> None:
    """The first lines still fit: the server was told another format meanwhile."""
    place.log.write_text(COMBINED * 1_000 + '{"ts":"2026-01-01T00:00:00Z","password":"s3cret"}\n' * 1_000)
    finding = only(place.findings(), Check.FORMAT)
    assert "0 of the last 1000 lines" in finding.what
    assert finding.mend.startswith("elf sample ") and 'format = "json", time = "ts", which 1000 fit' in finding.mend
    assert "s3cret" not in str(finding)


def test_a_port_that_is_taken(place: Place) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", place.overlay))
        taken.listen()
        finding = only(place.findings(), Check.PORT)
    assert f"127.0.0.1:{place.overlay}: another program has this port" in finding.what
    assert f"sport = :{place.overlay}" in finding.mend


def test_another_program_at_the_port_of_the_api(place: Place) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", place.api))
        found = examine(place.file, None, None).findings
    assert {each.check for each in found} == {Check.PORT, Check.AGENT}


def test_a_full_disk(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    full = shutil.disk_usage("/")._replace(total=100 << 30, free=3 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    finding = only(place.findings(), Check.DISK)
    assert finding.what.endswith("has 3 MiB left") and finding.mend.startswith("du ")


def certify(place: Place, days_ago: int, days: int) -> None:
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days_ago)
    ca = certificates.make_authority(then, 3_000)
    cert, key = certificates.make_certificate(*ca, ["127.0.0.1"], then, days)
    for name, data in (("ca", ca[0]), ("cert", cert), ("key", key)):
        (place.folder / name).write_bytes(data)
        (place.folder / name).chmod(0o600)
    place.write(overlay="\n".join(f'tls_{name}_file = "{place.folder / name}"' for name in ("ca", "cert", "key")))


def test_an_expired_certificate(place: Place) -> None:
    certify(place, days_ago=20, days=10)
    found = place.findings()
    assert {each.check for each in found} == {Check.CERTIFICATE}
    assert any("has expired on" in each.what and "elf certgen" in each.mend for each in found)


def test_a_certificate_that_soon_expires(place: Place) -> None:
    certify(place, days_ago=20, days=30)
    assert "in 9 days" in only(place.findings(), Check.CERTIFICATE).what
    certify(place, days_ago=0, days=100)
    assert place.findings() == []


def test_a_secret_that_others_can_read(place: Place) -> None:
    (place.folder / "secret").write_text("5" * 64)
    (place.folder / "secret").chmod(0o644)
    place.write(overlay=f'secret_file = "{place.folder}/secret"')
    finding = only(place.findings(), Check.SECRET)
    assert finding.mend == f"chmod 600 {place.folder}/secret" and "5555" not in str(finding)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_secret_that_the_agent_may_not_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        place.folder.chmod(0o755)
        os.chown(place.data, 65534, 65534)
        (place.folder / "secret").write_text("5" * 64)
        (place.folder / "secret").chmod(0o600)
        place.write(overlay=f'secret_file = "{place.folder}/secret"')
        finding = only(place.findings(), Check.SECRET)
        assert finding.what == f"the agent's user nobody may not read {place.folder}/secret"
        assert finding.mend.startswith(f"setfacl --modify u:nobody:r {place.folder}/secret && ")
        os.chown(place.folder / "secret", 65534, 65534)
        assert place.findings() == []


def test_settings_that_are_wrong(place: Place) -> None:
    place.write(archive="rows_max = 0")
    finding = only(examine(place.file, None, None).findings, Check.SETTINGS)
    assert "archive.rows_max = 0" in finding.what and finding.mend == f"elf validate {place.file}"


def test_a_clock_that_is_wrong() -> None:
    neighbours = Neighbours.__new__(Neighbours)
    neighbours.trouble = None
    neighbours._say(90_000)
    assert neighbours.trouble is not None
    finding = only(asked(reasons=[neighbours.trouble]), Check.CLOCK)
    assert "90 s ahead of" in finding.what and "timedatectl" in finding.mend
    assert only(asked(metrics={("elf_clock_set_back_seconds", ()): 3_600.0}), Check.CLOCK)


@pytest.mark.parametrize("why", [auth._UNLIKE_OPEN, auth._UNLIKE_SEALED, auth._UNLIKE_SECRET])
def test_a_wrong_secret_in_all_its_words(why: str) -> None:
    finding = only(asked(notes=[f"datagrams from 10.0.0.1:4250 are not heard: {why}"]), Check.SECRET)
    assert "sha256sum /etc/elf/secret" in finding.mend


def test_another_version() -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        agreed(Offer(3, 3, (), "0.1.0"), Offer(99, 99, (), "9.0"))
    assert only(asked(reasons=[f"no link with 10.0.0.1:4250: {caught.value}"]), Check.VERSION)
    two = [{"release": "0.1.0"}, {"release": "0.2.0"}, {"release": ""}]
    assert "0.1.0, 0.2.0" in only(asked(members=two), Check.VERSION).what


def test_no_majority() -> None:
    job = {"creator": "shop", "name": "top", "source": "access", "state": "running"}
    partial = {"shop/top": {"completeness": {"status": "partial"}, "window": None}}
    finding = only(asked(jobs=[job], results=partial), Check.MAJORITY)
    assert "elf force shop/top" in finding.mend
    silent = {"shop/top": {"detail": "the master of shop/top does not answer"}}
    assert "does not answer" in only(asked(jobs=[job], results=silent), Check.MAJORITY).what


def test_a_job_that_stands_still() -> None:
    job = {"creator": "shop", "name": "top", "source": "access", "state": "running"}
    known = {"status": "final_incomplete", "missing": ["web3"]}
    results = {"shop/top": {"completeness": known, "window": {"start_ms": 0, "end_ms": 1_000_000}}}
    newest = {("elf_newest_event_timestamp_seconds", (("source", "access"),)): 4_600.0}
    finding = only(asked(jobs=[job], results=results, metrics=newest), Check.JOB)
    assert "60 min before" in finding.what and "web3" in finding.what and finding.mend == "elf explain shop/top"


def test_a_copy_of_the_archive_that_is_stuck() -> None:
    figures = {("elf_archive_copy_waiting_files", ()): 7.0, ("elf_archive_copy_failures_total", ()): 3.0}
    assert "7 files" in only(asked(metrics=figures), Check.ARCHIVE).what
    assert asked(metrics={("elf_archive_copy_waiting_files", ()): 7.0}) == []


@pytest.mark.parametrize(("opened", "most"), [(900.0, 1_024.0), (10.0, 256.0)])
def test_too_few_files(opened: float, most: float) -> None:
    figures = {("process_open_fds", ()): opened, ("process_max_fds", ()): most}
    assert "LimitNOFILE" in only(asked(metrics=figures), Check.FILES).mend


def test_a_source_that_stands_still_names_its_log() -> None:
    finding = only(asked(reasons=["source access: Permission denied"]), Check.LOG)
    assert finding.mend == "ls -l /l/a.log"


def test_what_agents_say_cannot_add_to_commands() -> None:
    for check in asked(reasons=["job $(reboot): x", "source `reboot`: No space left on device", "; reboot"]):
        assert "$(reboot)" not in check.mend.replace("'$(reboot)'", "") and "`" not in check.mend


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[AgentProcess, AgentProcess]]:
    """Two real agents whose secrets differ."""
    for name, digit in (("ours", "a"), ("theirs", "b")):
        (tmp_path / name).write_text(digit * 64 + "\n")
        (tmp_path / name).chmod(0o600)
    first = AgentProcess(tmp_path, "first", {}, [], overlay={"secret_file": str(tmp_path / "ours")})
    overlay = {"secret_file": str(tmp_path / "theirs")}
    other = AgentProcess(tmp_path, "other", {}, [first.overlay], overlay=overlay, joins=False)
    with running([first, other]):
        yield first, other


def test_real_agents_with_secrets_that_differ_and_stale_settings(two: tuple[AgentProcess, AgentProcess]) -> None:
    first, second = two
    file = first.folder / "other.toml"

    def findings() -> dict[Check, Finding]:
        return {each.check: each for each in examine(file, None, None).findings}

    wait_until(lambda: Check.SECRET in findings(), "the doctor compares secrets")
    assert f"sha256sum {first.folder}/theirs" in findings()[Check.SECRET].mend
    assert Check.STALE not in findings()
    future = time.time() + 60
    os.utime(file, (future, future))
    assert "after the agent has read it" in findings()[Check.STALE].what
    os.utime(file)
    with elf.connect(second.url) as client:
        client.reload()
    assert Check.STALE not in findings(), "it has read them again"
    assert not [each for each in findings().values() if "bbbb" in str(each)]


def test_settings_that_an_agent_could_not_read_again() -> None:
    note = "runs on the settings of 2026-11-27 10:00 UTC; they could not be changed: agent.toml:3: no such setting"
    assert only(asked(notes=[note]), Check.STALE).mend == "elf validate SETTINGS && elf reload"
