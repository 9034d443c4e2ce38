"""The commands backup and restore: what they say, and their exit codes."""

from __future__ import annotations

import json
import pathlib

from typer.testing import CliRunner

from elf.agents.store.database import Database
from elf.cli.app import app


def test_a_backup_is_made_and_restored(tmp_path: pathlib.Path) -> None:
    settings, backup, data = tmp_path / "agent.toml", tmp_path / "b.tar.gz", tmp_path / "data"
    settings.write_text(f'[agent]\ndata = "{data}"\nname = "web1"\n[sources.access]\npath = "/var/log/x.log"\n')
    database = Database(data / "state.db")
    agent_id = database.agent_id
    database.close()
    made = CliRunner().invoke(app, ["backup", str(settings), "--to", str(backup)])
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert (told["file"], told["backup"]["agent"], told["backup"]["name"]) == (str(backup), agent_id, "web1")
    again = CliRunner().invoke(app, ["restore", str(backup), "--data", str(tmp_path / "new")])
    assert again.exit_code == 0 and json.loads(again.stdout)["backup"] == told["backup"]
    refused = CliRunner().invoke(app, ["restore", str(backup), "--data", str(tmp_path / "new")])
    assert refused.exit_code == 78


def test_what_is_wrong_is_said(tmp_path: pathlib.Path) -> None:
    settings = tmp_path / "agent.toml"
    settings.write_text(f'[agent]\ndata = "{tmp_path}/data"\n')
    none = CliRunner().invoke(app, ["backup", str(settings), "--to", str(tmp_path / "b.tar.gz")])
    assert none.exit_code == 78 and not (tmp_path / "b.tar.gz").exists()
    text = CliRunner().invoke(app, ["restore", str(settings), "--data", str(tmp_path / "new")])
    assert text.exit_code == 2
