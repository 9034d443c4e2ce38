"""Backups: whole agents that lose their disk, what is in a backup and what not, and files that are none."""

from __future__ import annotations

import asyncio
import io
import os
import pathlib
import shutil
import tarfile

import pytest
from msgspec.structs import replace

from elf.agents.errors import BadRequestError, ConfigError
from elf.agents.http.agent_service import Service
from elf.agents.jobs.definition import load_definition
from elf.agents.settings.config import AgentConfig, ApiSection
from elf.agents.store.database import Database
from elf.backup.backup import pack
from elf.backup.manifest import Manifest
from elf.backup.restoration import restore, write_texts
from elf.cli.effective import render_changes
from tests.agents.test_reconfiguration import COUNT, configs, counts, write
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, now_ms, running

NOW_MS = 1_700_000_000_000


def packed(
    tmp_path: pathlib.Path, config: AgentConfig, *, secrets: bool = False, made_ms: int = NOW_MS
) -> tuple[pathlib.Path, Manifest]:
    settings, out = tmp_path / "agent.toml", tmp_path / "backup.tar.gz"
    settings.write_text(render_changes(config))
    return out, pack(settings, config, out, made_ms, secrets=secrets)


@pytest.fixture
def config(tmp_path: pathlib.Path) -> AgentConfig:
    """Settings of an agent that has run, and names a file with a secret."""
    token = tmp_path / "token"
    token.write_text("planted-secret\n")
    config = AgentConfig(api=ApiSection(token_file=str(token)))
    config = replace(config, agent=replace(config.agent, data=str(tmp_path / "data")))
    database = Database(tmp_path / "data" / "state.db")
    database.close()
    return config


@pytest.mark.virtual
async def test_an_agent_that_lost_its_disk_has_its_results_again(tmp_path: pathlib.Path) -> None:
    (config,) = configs(tmp_path, 1)
    async with running([config]) as agents:
        await Service(agents[0]).publish(COUNT, "count.toml", None, None)
        await wait_until(lambda: bool(agents[0].intakes["orders"].pump.workers))
        began_ms = now_ms()
        write(tmp_path / "0.log", 1, 2)
        await asyncio.sleep(8.0)
        backup, manifest = packed(tmp_path, config, made_ms=now_ms())
        assert manifest.jobs == ["shop/count"]
        write(tmp_path / "0.log", 3)  # counted, and lost with the disk
        await asyncio.sleep(8.0)
        await agents[0].stop()
        shutil.rmtree(config.agent.data)
        assert restore(backup, pathlib.Path(config.agent.data), now_ms()) == manifest
        agents[0] = Agent(config)
        await agents[0].start()
        restored_ms = now_ms()
        await asyncio.sleep(2.0)
        write(tmp_path / "0.log", 4)
        await asyncio.sleep(10.0)
        assert await counts(agents[0], began_ms) == {1: 1, 2: 1, 3: 1, 4: 1}
        for start_ms in range(began_ms // 2_000 * 2_000, restored_ms - 2_000, 2_000):
            result = await Service(agents[0]).result("shop", "count", f"{start_ms}/{start_ms + 2_000}", None, None)
            assert result["completeness"]["gaps"] > 0, "what was decided after the backup is lost"
        texts = tmp_path / "texts"
        write_texts(backup, texts)
        job = load_definition((texts / "jobs" / "shop" / "count.toml").read_text())
        assert (job.key, job.columns) == ("shop/count", {"n": "BIGINT"})


def test_secrets_are_in_it_only_if_asked_for(config: AgentConfig, tmp_path: pathlib.Path) -> None:
    backup, _ = packed(tmp_path, config)
    with tarfile.open(backup) as archive:
        content = b"".join(archive.extractfile(each).read() for each in archive)  # type: ignore[union-attr]
    assert b"planted-secret" not in content and backup.stat().st_mode & 0o777 == 0o600
    backup.unlink()
    backup, _ = packed(tmp_path, config, secrets=True)
    write_texts(backup, tmp_path / "texts")
    secret = tmp_path / "texts" / "secrets" / "token_file"
    assert secret.read_text() == "planted-secret\n" and secret.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "texts" / "agent.toml").read_text() == render_changes(config)


def test_nothing_is_written_over(config: AgentConfig, tmp_path: pathlib.Path) -> None:
    backup, _ = packed(tmp_path, config)
    before = backup.read_bytes()
    with pytest.raises(BadRequestError, match="exists already"):
        packed(tmp_path, config)
    assert backup.read_bytes() == before
    with pytest.raises(ConfigError, match=r"is not empty \(state\.db\)"):
        restore(backup, tmp_path / "data", NOW_MS)
    with pytest.raises(BadRequestError, match="is there already"):
        write_texts(backup, tmp_path / "data")
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".backup")]


def test_a_restore_that_was_interrupted_is_done_again(config: AgentConfig, tmp_path: pathlib.Path) -> None:
    backup, _ = packed(tmp_path, config)
    data = tmp_path / "new"
    data.mkdir()
    for name in ("state.db.restoring", "state.db.restoring-journal", "state.db.copy", "lock"):
        (data / name).write_bytes(b"half of it")
    restore(backup, data, NOW_MS)
    assert sorted(os.listdir(data)) == ["lock", "state.db"]
    assert (data / "state.db").stat().st_mode & 0o777 == 0o600
    Database(data / "state.db").close()


@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 0.95])
def test_a_file_that_is_cut_off_is_no_backup(config: AgentConfig, tmp_path: pathlib.Path, share: float) -> None:
    backup = tmp_path / "cut.tar.gz"
    whole, _ = packed(tmp_path, config)
    backup.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
    with pytest.raises(BadRequestError, match="no backup that elf has made"):
        restore(backup, tmp_path / "new", NOW_MS)
    assert os.listdir(tmp_path / "new") == []


@pytest.mark.parametrize(
    "name", ["../evil", "/tmp/evil", "elf-backup/../../evil", "elf-backup/a/b/c/d", "elf-backup/."]
)
def test_no_part_leads_out_of_the_folder(config: AgentConfig, tmp_path: pathlib.Path, name: str) -> None:
    backup, hostile = packed(tmp_path, config)[0], tmp_path / "hostile.tar.gz"
    with tarfile.open(backup) as given, tarfile.open(hostile, "w:gz") as made:
        for each in given:
            made.addfile(each, given.extractfile(each))
        entry = tarfile.TarInfo(name)
        entry.size = 4
        made.addfile(entry, io.BytesIO(b"evil"))
    with pytest.raises(BadRequestError, match="has a part"):
        write_texts(hostile, tmp_path / "texts")
    assert not any(each.read_bytes() == b"evil" for each in tmp_path.rglob("*evil*"))


def test_links_in_it_are_refused(config: AgentConfig, tmp_path: pathlib.Path) -> None:
    backup, hostile = packed(tmp_path, config)[0], tmp_path / "hostile.tar.gz"
    with tarfile.open(backup) as given, tarfile.open(hostile, "w:gz") as made:
        for each in given:
            if each.name != "elf-backup/state.db":
                made.addfile(each, given.extractfile(each))
        entry = tarfile.TarInfo("elf-backup/state.db")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        made.addfile(entry)
    with pytest.raises(BadRequestError, match="no backup"):
        restore(hostile, tmp_path / "new", NOW_MS)
