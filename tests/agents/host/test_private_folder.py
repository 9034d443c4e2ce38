"""The data folder is its owner's alone, and leads nowhere else."""

import os
import pathlib
import stat

import pytest

from elf.agents.errors import ConfigError
from elf.agents.host.private_folder import close_folder


def mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_is_made_or_closed(tmp_path: pathlib.Path) -> None:
    made, there = tmp_path / "a" / "made", tmp_path / "there"
    there.mkdir()
    there.chmod(0o2775)
    for folder in (made, there):
        close_folder(folder)
        close_folder(folder)
    assert (mode(made), mode(there)) == (0o700, 0o2700)


@pytest.mark.parametrize("place", ["state.db", "push/s.log", "archive/source=s/x.parquet", "rejected"])
def test_links_are_refused_wherever_they_are(tmp_path: pathlib.Path, place: str) -> None:
    link = tmp_path / "data" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=f"{place} is a link, and elf follows none"):
        close_folder(tmp_path / "data")


def test_a_folder_of_somebody_else_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ConfigError, match="belongs to another user; give this agent a folder of its own"):
        close_folder(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_others_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "state.db").write_text("")
    os.chown(tmp_path / "data" / "state.db", 65534, 65534)
    with pytest.raises(ConfigError, match=r"state\.db belongs to another user"):
        close_folder(tmp_path / "data")
    os.chown(tmp_path / "data", 65534, 65534)
    close_folder(tmp_path / "data")


def test_what_is_no_folder_is_said(tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(ConfigError, match=r"^agent\.data = '.*data' cannot be used: File exists$"):
        close_folder(tmp_path / "data")
