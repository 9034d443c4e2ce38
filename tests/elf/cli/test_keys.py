"""keygen: a private file; certgen: a CA once, a certificate per agent; and nothing overwritten."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from elf.agents.errors import ConfigError
from elf.agents.extensions.signed.runners import Trust
from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.ed25519 import public_key
from elf.agents.settings.config import FunctionsSection, OverlaySection
from elf.cli.app import app
from elf.client.creator_keys import read_creator_key
from elf.overlay.errors import OverlayError
from elf.overlay.ids import format_address
from elf.overlay.links.certificates import check_own, serial_of
from elf.overlay.links.notary import read_revoked
from tests.agents.extensions.signed.signed_jobs import SECTION, text_of


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_keygen_makes_a_private_file_once(tmp_path: Path) -> None:
    out = tmp_path / "secret"
    assert run("keygen", "--out", out).exit_code == 0
    key = out.read_text().strip()
    assert len(bytes.fromhex(key)) == 32
    assert out.stat().st_mode & 0o777 == 0o600
    again = run("keygen", "--out", out)
    assert (again.exit_code, "exists" in again.stderr) == (2, True)
    assert out.read_text().strip() == key
    assert key not in again.stderr
    assert run("keygen", "--out", tmp_path / "no" / "such").exit_code == 2


def test_a_creators_key_is_made_where_it_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.delenv("ELF_CREATOR_KEY_FILE", raising=False)
    made = run("keygen", "--creator")
    file = tmp_path / "settings" / "elf" / "creator.key"
    assert (made.exit_code, made.stdout.strip()) == (0, public_key(bytes.fromhex(file.read_text())))
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_creator_key() is not None
    again = run("keygen", "--creator")
    assert (again.exit_code, "a lost key can sign no update" in again.stderr) == (2, True)
    assert run("keygen", "--creator", "--out", tmp_path / "other").exit_code == 0
    nowhere = run("keygen")
    assert (nowhere.exit_code, "name the file to create" in nowhere.stderr) == (2, True)


def test_a_ca_once_and_a_certificate_per_agent(tmp_path: Path) -> None:
    out = tmp_path / "tls"
    made = run("certgen", "--out", out, "--address", "10.0.0.7")
    assert made.exit_code == 0, made.stderr
    assert "ca-key.pem to yourself" in made.stderr
    authority = (out / "ca.pem").read_bytes()
    assert run("certgen", "--out", out, "--address", "2001:db8::1", "--address", "10.0.0.8").exit_code == 0
    assert (out / "ca.pem").read_bytes() == authority
    names = {"ca.pem", "ca-key.pem", "10.0.0.7.pem", "10.0.0.7-key.pem", "2001_db8__1.pem", "2001_db8__1-key.pem"}
    assert {file.name for file in out.iterdir()} == names
    assert all(file.stat().st_mode & 0o077 == 0 for file in out.iterdir())
    now = datetime.datetime.now(datetime.UTC)
    for name, address in (("10.0.0.7", "10.0.0.7"), ("2001_db8__1", "2001:db8::1"), ("2001_db8__1", "10.0.0.8")):
        check_own(str(out / f"{name}.pem"), str(out / "ca.pem"), format_address(address, 4250), now)


def test_a_certificate_that_names_a_port_is_said_to_need_no_secret(tmp_path: Path) -> None:
    made = run("certgen", "--out", tmp_path, "--address", "10.0.0.7:4250")
    assert made.exit_code == 0 and "secret" not in made.stderr
    assert run("certgen", "--out", tmp_path, "--address", "[2001:db8::1]:4250").exit_code == 0
    now = datetime.datetime.now(datetime.UTC)
    for name, address in (("10.0.0.7_4250", "10.0.0.7:4250"), ("2001_db8__1__4250", "[2001:db8::1]:4250")):
        check_own(str(tmp_path / f"{name}.pem"), str(tmp_path / "ca.pem"), address, now)
    with pytest.raises(OverlayError, match=r"not valid for 10.0.0.7:4251, the address of this agent"):
        check_own(str(tmp_path / "10.0.0.7_4250.pem"), str(tmp_path / "ca.pem"), "10.0.0.7:4251", now)
    assert (
        "so the agent needs the cluster's secret, too" in run("certgen", "--out", tmp_path, "--address", "::1").stderr
    )


def test_a_revoked_certificate_is_on_a_list_that_agents_read(tmp_path: Path) -> None:
    for address in ("10.0.0.7:4250", "10.0.0.8:4250"):
        assert run("certgen", "--out", tmp_path, "--address", address).exit_code == 0
    lost, revoked = tmp_path / "10.0.0.7_4250.pem", tmp_path / "revoked"
    made = run("certgen", "--out", tmp_path, "--revoke", lost)
    assert made.exit_code == 0 and "tls_revoked_file" in made.stderr and "elf retire" in made.stderr
    assert read_revoked(str(revoked)) == {serial_of(str(lost))}
    assert revoked.stat().st_mode & 0o077 == 0
    assert "already" in run("certgen", "--out", tmp_path, "--revoke", lost).stderr
    revoked.write_text(revoked.read_text().strip())  # an editor that ends no last line
    assert run("certgen", "--out", tmp_path, "--revoke", tmp_path / "10.0.0.8_4250.pem").exit_code == 0
    assert len(read_revoked(str(revoked))) == 2
    for arguments in (("--revoke", lost, "--address", "10.0.0.9:1"), (), ("--revoke", tmp_path / "none.pem")):
        assert run("certgen", "--out", tmp_path, *arguments).exit_code == 2


def test_nothing_is_overwritten_and_nonsense_is_refused(tmp_path: Path) -> None:
    assert run("certgen", "--out", tmp_path, "--address", "10.0.0.7").exit_code == 0
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    again = run("certgen", "--out", tmp_path, "--address", "10.0.0.7")
    assert (again.exit_code, "not overwritten" in again.stderr) == (2, True)
    wrong = run("certgen", "--out", tmp_path, "--address", "web1.example")
    assert (wrong.exit_code, "is no IP address, and no IP:PORT" in wrong.stderr) == (2, True)
    (tmp_path / "ca-key.pem").write_text("nonsense")
    broken = run("certgen", "--out", tmp_path, "--address", "10.0.0.8")
    assert (broken.exit_code, "CA cannot be used" in broken.stderr) == (2, True)
    (tmp_path / "ca-key.pem").unlink()
    missing = run("certgen", "--out", tmp_path, "--address", "10.0.0.9")
    assert (missing.exit_code, "ca-key.pem" in missing.stderr) == (2, True)
    before.pop("ca-key.pem")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_settings_of_certificates_belong_together() -> None:
    with pytest.raises(ConfigError, match="elf certgen"):
        OverlaySection(tls_cert_file="a.pem")
    files = {"tls_cert_file": "a", "tls_key_file": "b", "tls_ca_file": "c"}
    with pytest.raises(ConfigError, match=r"there is no cluster secret.*elf keygen"):
        OverlaySection(bind="10.0.0.7:4250")
    # Whether the certificate names the port, and needs no secret, is seen when it is read.
    assert OverlaySection(bind="10.0.0.7:4250", **files).tls_ca_file == "c"
    with pytest.raises(ConfigError, match="lists certificates, and there are none"):
        OverlaySection(tls_revoked_file="r")


def test_a_key_to_sign_with_signs_a_job_that_agents_who_list_it_trust(tmp_path: Path) -> None:
    key, job = tmp_path / "shop.key", tmp_path / "sections.toml"
    made = run("keygen", "--signing", "--out", key)
    assert made.exit_code == 0 and key.read_text().strip() not in made.stdout + made.stderr
    trust = Trust(FunctionsSection(trusted={"shop": made.stdout.strip()}).trusted)
    job.write_text(text_of("sections").replace(f"source = '''{SECTION}'''", 'file = "section.py"'))
    (tmp_path / "section.py").write_text(SECTION)
    signed = run("sign", job, "--key", key)
    assert signed.exit_code == 0, signed.stderr
    trust.check("shop", "sections", load_definition(signed.stdout).functions)
    renamed = load_definition(run("sign", job, "--key", key, "--name", "others").stdout, name="others")
    trust.check("shop", "others", renamed.functions)
    job.write_text(signed.stdout)
    for arguments, why in (
        ((job, "--key", key), "is signed already"),
        ((job, "--key", job), "holds no key to sign with"),
        ((tmp_path / "none.toml", "--key", key), "No such file"),
    ):
        refused = run("sign", *arguments)
        assert (refused.exit_code, refused.stdout) == (2, "") and why in refused.stderr
    with pytest.raises(ConfigError, match="is no public key"):
        FunctionsSection(trusted={"shop": key.read_text().strip()})
